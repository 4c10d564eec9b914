"""The named cases of Temporal's activities, one by one; and where pgwhen differs, how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg import DatabaseError

from tests.activities.model import Claim, Reply

if TYPE_CHECKING:
    from tests.activities.shop import Shop

#: One second between attempts, as many as it takes.
EACH_SECOND = {"initialInterval": 1, "backoffCoefficient": 1, "maximumAttempts": 0}
#: The two timeouts after which another attempt follows, and what sets each.
OF_AN_ATTEMPT = [
    ("Timeout:StartToClose", {"startToClose": 5}),
    ("Timeout:Heartbeat", {"heartbeat": 5}),
]
LOST = Reply(held=False, cancel_requested=False)
HELD = Reply(held=True, cancel_requested=False)
ASKED = Reply(held=True, cancel_requested=True)


def ended(shop: Shop) -> tuple[str, str | None, str | None]:
    """Return how the only action ended: its status, its error, and why there was no other try."""
    state = shop.state()
    assert state.log_rows == 1
    return state.status, state.error, state.retry_state


def fail_next(shop: Shop, **error: Any) -> None:
    """Wait until the only action is due, and let an attempt at it fail."""
    shop.let_pass(max(0, int(shop.state().execute_at) - shop.now()))
    shop.fail(shop.begin(), **error)


def the_claim(shop: Shop) -> Claim:
    """Claim the only action; return what the worker is told."""
    [told] = shop.claim().values()
    return told


def refusal(shop: Shop, **said: Any) -> str | None:
    """Return the SQLSTATE with which an action of that kind is refused."""
    with pytest.raises(DatabaseError) as raised:
        shop.schedule(**said)
    return raised.value.sqlstate


# Timeouts -------------------------------------------------------------------------------------


def test_schedule_to_start_ends_what_nobody_claims(shop: Shop) -> None:
    """It is not retried, and no attempt is counted."""
    shop.schedule({"scheduleToStart": 5}, EACH_SECOND)
    shop.let_pass(5)
    assert shop.state().status == "pending"
    shop.let_pass(1)
    assert ended(shop) == ("failed", "Timeout:ScheduleToStart", "timeout")
    assert shop.state().retry_count == 0


def test_schedule_to_start_is_over_with_the_claim(shop: Shop) -> None:
    shop.schedule({"scheduleToStart": 5})
    shop.begin()
    shop.let_pass(60)
    assert shop.state().status == "processing"


def test_schedule_to_start_begins_anew_after_each_backoff(shop: Shop) -> None:
    shop.schedule({"scheduleToStart": 5}, {"initialInterval": 30})
    shop.fail(shop.begin())
    shop.let_pass(35)
    assert shop.state().status == "pending"
    shop.let_pass(1)
    assert ended(shop) == ("failed", "Timeout:ScheduleToStart", "timeout")


@pytest.mark.parametrize(("error", "timeouts"), OF_AN_ATTEMPT)
def test_an_attempt_that_times_out_is_retried_after_its_backoff(
    shop: Shop, error: str, timeouts: dict[str, int]
) -> None:
    shop.schedule(timeouts, {"initialInterval": 7})
    shop.begin()
    shop.let_pass(5)
    assert shop.state().status == "processing"
    shop.let_pass(1)
    assert shop.state()[:5] == ("pending", 1, 6 + 7, None, error)


@pytest.mark.parametrize(("error", "timeouts"), OF_AN_ATTEMPT)
def test_an_attempt_that_times_out_is_not_retried_where_that_is_listed(
    shop: Shop, error: str, timeouts: dict[str, int]
) -> None:
    shop.schedule(timeouts, {"nonRetryableErrorTypes": [error]})
    shop.begin()
    shop.let_pass(6)
    assert ended(shop) == ("failed", error, "non_retryable")


@pytest.mark.parametrize(("error", "timeouts"), OF_AN_ATTEMPT)
def test_an_attempt_that_times_out_counts(shop: Shop, error: str, timeouts: dict[str, int]) -> None:
    """What is lost with the last attempt does not stay: it ends."""
    shop.schedule(timeouts, {"maximumAttempts": 1})
    shop.begin()
    shop.let_pass(6)
    assert ended(shop) == ("failed", error, "maximum_attempts_reached")


def test_waiting_counts_no_attempt(shop: Shop) -> None:
    shop.schedule(policy={"maximumAttempts": 1})
    shop.let_pass(3600)
    assert the_claim(shop).attempt == 1


def test_the_heartbeat_timeout_counts_from_the_last_heartbeat(shop: Shop) -> None:
    shop.schedule({"heartbeat": 5})
    held = shop.begin()
    shop.let_pass(4)
    assert shop.heartbeat(held) == HELD
    shop.let_pass(5)
    assert shop.state().status == "processing"
    shop.let_pass(1)
    assert shop.state().error == "Timeout:Heartbeat"


def test_a_heartbeat_that_comes_just_before_the_timer_keeps_the_attempt(shop: Shop) -> None:
    """The timer of before finds that there is a newer one; that one holds."""
    shop.schedule({"heartbeat": 5})
    held = shop.begin()
    for _ in range(3):
        shop.let_pass(5)
        assert shop.heartbeat(held) == HELD
    shop.let_pass(6)
    assert shop.state().error == "Timeout:Heartbeat"


def test_heartbeats_do_not_extend_start_to_close(shop: Shop) -> None:
    shop.schedule({"heartbeat": 5, "startToClose": 10})
    held = shop.begin()
    for _ in range(2):
        shop.let_pass(4)
        assert shop.heartbeat(held) == HELD
    shop.let_pass(3)
    assert shop.state().error == "Timeout:StartToClose"


def test_schedule_to_close_ends_what_waits(shop: Shop) -> None:
    shop.schedule({"scheduleToClose": 10})
    shop.let_pass(11)
    assert ended(shop) == ("failed", "Timeout:ScheduleToClose", "timeout")


def test_schedule_to_close_ends_what_waits_for_its_next_attempt(shop: Shop) -> None:
    """It counts once, from before the first attempt."""
    shop.schedule({"scheduleToClose": 10}, {"initialInterval": 9})
    shop.fail(shop.begin(), type="Busy", message="503")
    shop.let_pass(11)
    assert ended(shop) == ("failed", "Timeout:ScheduleToClose", "timeout")
    assert "Busy: 503" in shop.error()


def test_schedule_to_close_ends_what_runs_and_its_worker_finds_out(shop: Shop) -> None:
    shop.schedule({"scheduleToClose": 10, "startToClose": 8}, EACH_SECOND)
    shop.let_pass(5)
    held = shop.begin()
    shop.let_pass(6)
    assert ended(shop) == ("failed", "Timeout:ScheduleToClose", "timeout")
    assert shop.heartbeat(held) == LOST
    assert not shop.complete(held)


def test_schedule_to_close_ends_what_a_pause_holds(shop: Shop) -> None:
    shop.pause()
    shop.schedule({"scheduleToClose": 10})
    shop.let_pass(11)
    assert ended(shop) == ("failed", "Timeout:ScheduleToClose", "timeout")


def test_schedule_to_start_stands_still_under_a_pause(shop: Shop) -> None:
    shop.schedule({"scheduleToStart": 5})
    shop.let_pass(3)
    shop.pause()
    shop.let_pass(100)
    shop.resume()
    shop.let_pass(2)
    assert shop.state().status == "pending"
    shop.let_pass(1)
    assert ended(shop) == ("failed", "Timeout:ScheduleToStart", "timeout")


def test_a_delay_shifts_the_clocks_of_waiting(shop: Shop) -> None:
    shop.schedule({"scheduleToStart": 5, "scheduleToClose": 8}, delay=100)
    shop.let_pass(105)
    assert the_claim(shop).deadline == 108


def test_no_attempt_is_waited_for_that_could_not_begin_in_time(shop: Shop) -> None:
    """An application's failure is reported as itself."""
    shop.schedule({"scheduleToClose": 10}, {"initialInterval": 10})
    shop.fail(shop.begin(), type="Busy")
    assert ended(shop) == ("failed", "Busy", "timeout")


@pytest.mark.parametrize(("error", "timeouts"), OF_AN_ATTEMPT)
def test_a_timeout_that_leaves_no_time_is_one_of_schedule_to_close(
    shop: Shop, error: str, timeouts: dict[str, int]
) -> None:
    """It keeps its cause: the timeout, and the application's failure before that."""
    shop.schedule({"scheduleToClose": 16, **timeouts}, {"initialInterval": 5})
    shop.fail(shop.begin(), type="Busy", message="503")
    shop.let_pass(5)
    shop.begin()
    shop.let_pass(6)
    assert ended(shop) == ("failed", "Timeout:ScheduleToClose", "timeout")
    assert error in shop.error()
    assert "Busy: 503" in shop.error()


def test_a_retried_timeout_does_not_chain_causes(shop: Shop) -> None:
    shop.schedule({"startToClose": 5}, EACH_SECOND)
    errors = []
    for attempt in (1, 2, 3):
        shop.begin()
        shop.let_pass(6)
        errors.append(shop.error().replace(f"attempt {attempt}", "attempt n"))
        shop.let_pass(1)
    assert errors == errors[:1] * 3


@pytest.mark.parametrize(
    ("timeouts", "deadline", "heartbeat"),
    [
        ({}, 300, None),
        ({"startToClose": 7}, 7, None),
        ({"scheduleToClose": 400}, 400, None),
        ({"scheduleToClose": 5, "startToClose": 7}, 5, None),
        ({"startToClose": 7, "heartbeat": 9}, 7, 7),
        ({"scheduleToClose": 5, "heartbeat": 9}, 5, 5),
    ],
)
def test_timeouts_are_filled_and_clipped(
    shop: Shop, timeouts: dict[str, int], deadline: int, heartbeat: int | None
) -> None:
    """By default an attempt has five minutes, unless something is said of its end."""
    shop.schedule(timeouts)
    told = the_claim(shop)
    assert (told.deadline, told.heartbeat_timeout) == (deadline, heartbeat)


def test_an_action_says_more_than_its_type_key_by_key(shop: Shop) -> None:
    shop.reset({"startToClose": 30, "heartbeat": 10}, {})
    shop.schedule({"startToClose": 60})
    shop.schedule({"heartbeat": None})
    told = [(claim.deadline, claim.heartbeat_timeout) for claim in shop.claim().values()]
    assert told == [(60, 10), (30, None)]


@pytest.mark.parametrize(
    "timeouts", [{"startToClose": None}, {"startToClose": -1}, {"heartbeat": 0}]
)
def test_an_attempt_must_end(shop: Shop, timeouts: dict[str, int | None]) -> None:
    assert refusal(shop, timeouts=timeouts) == "PW007"


# Retries --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        ({}, [10, 20, 40]),
        ({"initialInterval": 1, "maximumAttempts": 0}, [1, 2, 4, 8, 16, 32, 64, 100, 100]),
        ({"initialInterval": 3, "backoffCoefficient": 3, "maximumInterval": 10}, [3, 9, 10]),
        ({"initialInterval": 3, "backoffCoefficient": 1}, [3, 3, 3]),
    ],
)
def test_the_backoff_grows_to_the_maximum_interval(
    shop: Shop, policy: dict[str, int], waits: list[int]
) -> None:
    """Without jitter: initialInterval * backoffCoefficient ^ (n - 1)."""
    shop.schedule(policy=policy)
    for wait in waits:
        fail_next(shop)
        assert shop.state().execute_at == shop.now() + wait


@pytest.mark.parametrize("maximum", [1, 3])
def test_maximum_attempts_counts_the_first(shop: Shop, maximum: int) -> None:
    shop.schedule(policy={**EACH_SECOND, "maximumAttempts": maximum})
    for _ in range(maximum):
        assert shop.state().status == "pending"
        fail_next(shop, type="Busy")
    assert ended(shop) == ("failed", "Busy", "maximum_attempts_reached")


def test_four_attempts_by_default(shop: Shop) -> None:
    shop.schedule()
    for _ in range(4):
        fail_next(shop, type="Busy")
    assert ended(shop) == ("failed", "Busy", "maximum_attempts_reached")
    assert shop.state().retry_count == 4


@pytest.mark.parametrize(
    "policy",
    [
        {"backoffCoefficient": 0.5},
        {"initialInterval": 5, "maximumInterval": 4},
        {"maximumAttempts": -1},
    ],
)
def test_a_policy_that_cannot_be_is_refused(shop: Shop, policy: dict[str, float]) -> None:
    assert refusal(shop, policy=policy) == "PW006"


@pytest.mark.parametrize(
    ("cancel", "error", "maximum", "why"),
    [
        (True, {"nonRetryable": True}, 1, "cancel_requested"),
        (False, {"nonRetryable": True}, 1, "non_retryable"),
        (False, {}, 1, "maximum_attempts_reached"),
        (False, {}, 2, "timeout"),
    ],
)
def test_the_first_reason_decides(
    shop: Shop, *, cancel: bool, error: dict[str, Any], maximum: int, why: str
) -> None:
    """Every one of the later reasons holds too."""
    policy = {"maximumAttempts": maximum, "initialInterval": 10}
    action = shop.schedule({"scheduleToClose": 10}, policy)
    held = shop.begin()
    if cancel:
        shop.cancel(action)
    shop.fail(held, type="Busy", **error)
    assert ended(shop) == ("failed", "Busy", why)


def test_next_retry_delay_replaces_one_interval(shop: Shop) -> None:
    """And maximumInterval does not shorten it."""
    shop.schedule(policy={"initialInterval": 1, "maximumInterval": 5})
    shop.fail(shop.begin(), nextRetryDelay=60)
    assert shop.state().execute_at == 60
    fail_next(shop)
    assert shop.state().execute_at == 60 + 2


@pytest.mark.parametrize(
    ("timeouts", "policy", "why"),
    [
        ({"scheduleToClose": 60}, {}, "timeout"),
        ({}, {"maximumAttempts": 1}, "maximum_attempts_reached"),
    ],
)
def test_next_retry_delay_is_subject_to_the_other_limits(
    shop: Shop, timeouts: dict[str, int], policy: dict[str, int], why: str
) -> None:
    shop.schedule(timeouts, policy)
    shop.fail(shop.begin(), type="Busy", nextRetryDelay=60)
    assert ended(shop) == ("failed", "Busy", why)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ({"type": "Rejected"}, "non_retryable"),
        ({"type": "rejected"}, None),
        ({"type": "bank.Rejected"}, None),
        ({"message": "Rejected"}, None),
        ({"type": "Busy", "nonRetryable": True}, "non_retryable"),
    ],
)
def test_types_are_compared_letter_for_letter(
    shop: Shop, error: dict[str, Any], why: str | None
) -> None:
    shop.schedule(policy={"nonRetryableErrorTypes": ["Rejected"]})
    shop.fail(shop.begin(), **error)
    assert shop.state().retry_state == why


def test_a_failure_that_says_nothing_is_retried_and_ends_with_an_outcome(shop: Shop) -> None:
    shop.schedule(policy={**EACH_SECOND, "maximumAttempts": 2})
    fail_next(shop)
    assert shop.state().status == "pending"
    fail_next(shop)
    status, error, why = ended(shop)
    assert (status, why) == ("failed", "maximum_attempts_reached")
    assert error


def test_a_later_failure_replaces_the_earlier_one(shop: Shop) -> None:
    shop.schedule(policy=EACH_SECOND)
    fail_next(shop, type="Busy", message="503")
    fail_next(shop, type="Reset", message="by peer")
    assert shop.error() == "Reset: by peer"


# Heartbeats -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_lost", [True, False])
def test_details_reach_the_next_attempt(shop: Shop, *, is_lost: bool) -> None:
    """However the attempt ended; and the one after that, if nothing newer is told."""
    shop.schedule(policy=EACH_SECOND)
    assert shop.state().details is None
    held = shop.begin()
    shop.heartbeat(held, {"done": 7})
    for _ in range(2):
        if is_lost:
            shop.let_pass(301)
        else:
            shop.fail(held)
        shop.let_pass(1)
        [(held, told)] = shop.claim().items()
        assert told.heartbeat_details == {"done": 7}


def test_a_heartbeat_without_details_keeps_them(shop: Shop) -> None:
    """Where Temporal would forget them; null is a value."""
    shop.schedule()
    held = shop.begin()
    shop.heartbeat(held, {"done": 7})
    shop.heartbeat(held)
    assert shop.state().details == {"done": 7}
    shop.heartbeat(held, None)
    assert shop.state().details is None


def test_a_failure_brings_the_last_details(shop: Shop) -> None:
    shop.schedule(policy=EACH_SECOND)
    held = shop.begin()
    shop.heartbeat(held, {"done": 7})
    shop.fail(held, heartbeatDetails={"done": 9})
    shop.let_pass(1)
    assert the_claim(shop).heartbeat_details == {"done": 9}


def test_a_late_worker_does_not_touch_the_next_attempt(shop: Shop) -> None:
    shop.schedule({"startToClose": 5}, EACH_SECOND)
    late = shop.begin()
    shop.heartbeat(late, {"done": 7})
    shop.let_pass(6)
    before = shop.state()
    shop.let_pass(1)
    held = shop.begin()
    assert shop.heartbeat(late, {"done": 8}) == LOST
    assert not shop.fail(late, heartbeatDetails={"done": 8})
    assert not shop.complete(late)
    assert shop.state() == before._replace(status="processing")
    assert shop.complete(held)


# Cancel, pause, reset -------------------------------------------------------------------------


def test_a_cancel_ends_at_once_what_nobody_runs(shop: Shop) -> None:
    shop.cancel(shop.schedule())
    assert ended(shop) == ("cancelled", "cancelled", None)
    assert shop.claim() == {}


def test_a_cancel_ends_at_once_what_waits_for_its_next_attempt(shop: Shop) -> None:
    action = shop.schedule()
    shop.fail(shop.begin(), type="Busy")
    shop.cancel(action)
    assert ended(shop) == ("cancelled", "cancelled", None)


def test_a_running_attempt_hears_of_a_cancel_and_gives_way(shop: Shop) -> None:
    action = shop.schedule()
    held = shop.begin()
    assert shop.heartbeat(held) == HELD
    shop.cancel(action)
    assert shop.heartbeat(held) == ASKED
    assert shop.state().status == "processing"
    shop.fail(held, type="Cancelled", cancelled=True)
    assert ended(shop) == ("cancelled", "cancelled", "cancel_requested")


def test_a_completion_wins_over_a_cancel(shop: Shop) -> None:
    action = shop.schedule()
    held = shop.begin()
    shop.cancel(action)
    assert shop.complete(held)
    assert ended(shop) == ("done", None, None)


def test_a_failure_after_a_cancel_is_not_retried(shop: Shop) -> None:
    action = shop.schedule()
    held = shop.begin()
    shop.cancel(action)
    shop.fail(held, type="Busy")
    assert ended(shop) == ("failed", "Busy", "cancel_requested")


@pytest.mark.parametrize(
    ("error", "timeouts"), [*OF_AN_ATTEMPT, ("Timeout:ScheduleToClose", {"scheduleToClose": 5})]
)
def test_a_timeout_after_a_cancel_is_not_retried(
    shop: Shop, error: str, timeouts: dict[str, int]
) -> None:
    action = shop.schedule(timeouts)
    shop.begin()
    shop.cancel(action)
    shop.let_pass(6)
    assert ended(shop) == ("failed", error, "cancel_requested")


def test_to_give_way_unasked_is_a_failure(shop: Shop) -> None:
    """It ends as cancelled only where somebody asked for it."""
    shop.schedule(policy={**EACH_SECOND, "maximumAttempts": 2})
    shop.fail(shop.begin(), type="Cancelled", cancelled=True)
    assert shop.state()[:5] == ("pending", 1, 1, None, "Cancelled")
    fail_next(shop, type="Cancelled", cancelled=True)
    assert ended(shop) == ("failed", "Cancelled", "maximum_attempts_reached")


def test_what_has_ended_is_not_cancelled(shop: Shop) -> None:
    action = shop.schedule()
    shop.complete(shop.begin())
    with pytest.raises(DatabaseError) as raised:
        shop.cancel(action)
    assert raised.value.sqlstate == "PW602"


def test_a_pause_stops_claims_and_lets_go_on_what_runs(shop: Shop) -> None:
    shop.schedule(policy=EACH_SECOND)
    held = shop.begin()
    shop.pause()
    assert shop.heartbeat(held) == HELD
    shop.fail(held, type="Busy")
    assert shop.state()[:3] == ("pending", 1, 1)
    shop.let_pass(10)
    assert shop.claim() == {}
    shop.resume()
    assert shop.complete(shop.begin())


def test_what_runs_under_a_pause_may_succeed(shop: Shop) -> None:
    shop.schedule()
    held = shop.begin()
    shop.pause()
    assert shop.complete(held)
    assert ended(shop) == ("done", None, None)


def test_an_attempt_times_out_under_a_pause(shop: Shop) -> None:
    """No timer of an attempt is lost with a pause."""
    shop.schedule({"startToClose": 5}, EACH_SECOND)
    shop.begin()
    shop.pause()
    shop.let_pass(6)
    assert shop.state().error == "Timeout:StartToClose"
    shop.resume()
    shop.let_pass(1)
    assert the_claim(shop).attempt == 2


def test_to_resume_keeps_the_backoff(shop: Shop) -> None:
    shop.schedule(policy={"initialInterval": 10})
    shop.fail(shop.begin())
    shop.pause()
    shop.let_pass(5)
    shop.resume()
    assert shop.claim() == {}
    shop.let_pass(5)
    assert the_claim(shop).attempt == 2


def test_pauses_do_not_add_up(shop: Shop) -> None:
    shop.schedule()
    shop.pause()
    shop.pause()
    shop.resume()
    assert shop.begin()


def test_to_resume_what_is_not_paused_is_refused(shop: Shop) -> None:
    with pytest.raises(DatabaseError) as raised:
        shop.resume()
    assert raised.value.sqlstate == "PW606"


def test_to_retry_by_hand_begins_anew_and_keeps_the_details(shop: Shop) -> None:
    """Temporal's reset: the first attempt again, without backoff, and all clocks anew."""
    action = shop.schedule({"scheduleToClose": 10}, {"maximumAttempts": 1})
    held = shop.begin()
    shop.heartbeat(held, {"done": 7})
    shop.fail(held, type="Busy")
    shop.let_pass(60)
    shop.retry(action)
    assert the_claim(shop)[:4] == (1, 70, None, {"done": 7})


def test_a_second_report_is_refused(shop: Shop) -> None:
    shop.schedule()
    held = shop.begin()
    assert shop.complete(held)
    before = shop.state()
    assert not shop.complete(held)
    assert not shop.fail(held, type="Busy")
    assert shop.state() == before


def test_an_attempt_after_the_first_may_have_been_done(shop: Shop) -> None:
    shop.schedule(policy=EACH_SECOND)
    [(held, told)] = shop.claim().items()
    assert not told.maybe_done
    shop.fail(held)
    shop.let_pass(1)
    assert the_claim(shop).maybe_done
