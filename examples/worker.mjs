// A worker in JavaScript without any package: Node 20 or newer. It runs two handlers, `js.square` and `js.total`.
//
//   HOLDFAST_URL=http://127.0.0.1:8321 HOLDFAST_API_KEY=hf_… node worker.mjs
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

const [url, key] = [process.env.HOLDFAST_URL, process.env.HOLDFAST_API_KEY];
const LEASE_SECONDS = Number(process.env.LEASE_SECONDS ?? 15);
const SLOTS = 4;
let stopping = false;
let workerId;
const running = new Map(); // The leases that we hold, each with what stops its handler.

const handlers = {
  "js.square": async ({ params }) => ({ square: params.item ** 2 }),
  "js.total": async (task) => {
    let total = 0;
    for await (const output of results(task, task.params.of)) total += output.square;
    return { total };
  },
};

async function* results(task, node) {
  for (let after = -2; ; ) {
    const page = await ask("GET", `results/${node}?after=${after}`, undefined, { "Holdfast-Lease": task.lease });
    if (page.items.length === 0) return;
    for (const item of page.items) yield item.output;
    after = page.items.at(-1).index;
  }
}

class Problem extends Error {
  constructor(status, text) {
    super(`the service answered ${status}: ${text}`);
    this.code = /"code":\s*"(\w+)"/.exec(text)?.[1];
  }
}

async function ask(method, path, body, headers = {}) {
  // A request without a whole answer is sent again. If the service has carried it out, it answers the same.
  for (let wait = 100; ; wait = Math.min(wait * 2, 5000)) {
    try {
      const answer = await fetch(`${url}/api/v1/worker/${path}`, {
        method,
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
        body: body && JSON.stringify(body),
        signal: AbortSignal.timeout(30_000),
      });
      const text = await answer.text();
      if (answer.ok) return JSON.parse(text);
      if (![429, 502, 503, 504].includes(answer.status)) throw new Problem(answer.status, text);
    } catch (error) {
      if (error instanceof Problem) throw error;
    }
    await pause(wait);
  }
}

async function run(task) {
  const stop = new AbortController();
  const limit = setTimeout(() => stop.abort(), task.timeout_seconds * 1000);
  running.set(task.lease, stop);
  let report;
  try {
    const output = await handlers[task.handler]({ ...task, signal: stop.signal });
    report = { outcome: "done", output };
  } catch (error) {
    report = { outcome: "failed", failure: { code: error.code ?? "HANDLER_ERROR", message: String(error) } };
  }
  clearTimeout(limit);
  if (running.has(task.lease)) await askAsWorker("report", { reports: [{ lease: task.lease, ...report }] });
  running.delete(task.lease);
}

function lose(leases) {
  for (const lease of leases) {
    running.get(lease)?.abort();
    running.delete(lease);
  }
}

async function askAsWorker(path, body) {
  const asking = workerId;
  try {
    return await ask("POST", path, { worker_id: asking, ...body });
  } catch (error) {
    if (error.code !== "WORKER_GONE") throw error;
    if (asking !== workerId) return;
    // An outage was longer than our lease: we hold nothing any more, and begin again.
    lose([...running.keys()]);
    workerId = undefined;
  }
}

async function renew() {
  while (true) {
    await pause((LEASE_SECONDS * 1000) / 3);
    const renewed = workerId && (await askAsWorker("renew", { leases: [...running.keys()] }));
    for (const lease of renewed?.cancelled ?? []) running.get(lease)?.abort();
    lose(renewed?.lost ?? []);
  }
}

async function register() {
  const name = `javascript-${process.pid}`;
  const wish = { name, handlers: Object.keys(handlers), concurrency: SLOTS, lease_seconds: LEASE_SECONDS };
  workerId = (await ask("POST", "register", { ...wish, registration_id: randomUUID() })).worker_id;
  console.log(`${name} is worker ${workerId}`);
}

process.on("SIGTERM", () => (stopping = true));
renew().catch((error) => (console.error(error.message), process.exit(1)));
while (!stopping) {
  const free = SLOTS - running.size;
  if (!workerId) await register();
  else if (free === 0) await pause(20);
  else {
    const claimed = await askAsWorker("claim", { claim_id: randomUUID(), free, wait_seconds: 2 });
    for (const task of claimed?.tasks ?? []) run(task);
  }
}
while (running.size > 0) await pause(20);
if (workerId) await askAsWorker("leave");
process.exit(0);
