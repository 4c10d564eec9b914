// The worker of graphile-worker. BENCH_COUNT jobs will come.

const { run } = require("../.venv-peers/node_modules/graphile-worker");

let left = Number(process.env.BENCH_COUNT);

async function bench() {
  left -= 1;
  if (left === 0) {
    console.log("handled");
  }
}

console.log("starting");
run({
  taskList: { bench },
  preset: {
    worker: {
      connectionString: "postgres://",
      concurrentJobs: 24,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  },
});
