-- What watches pgwhen.trigger_rule.

do $$
begin
    perform _pgwhen.ensure_trigger('pgwhen.trigger_rule', t.name, t.timing, t.definition)
    from (values
        ('rule_to_insert', 'before insert',
            'for each row execute function _pgwhen.rule_to_insert()'),
        ('rule_to_update', 'before update',
            'for each row execute function _pgwhen.rule_to_update()'),
        ('rules_inserted', 'after insert',
            'referencing new table as new_rows '
            'for each statement execute function _pgwhen.rules_inserted()'),
        ('rules_updated', 'after update',
            'referencing old table as old_rows new table as new_rows '
            'for each statement execute function _pgwhen.rules_updated()'),
        ('rules_deleted', 'after delete',
            'referencing old table as old_rows '
            'for each statement execute function _pgwhen.rules_deleted()'),
        ('rules_truncated', 'after truncate',
            'for each statement execute function _pgwhen.rules_truncated()')
    ) as t (name, timing, definition);
end;
$$;
