/** What runs, what is stuck, what needs a person: the page to open first. */

import { useMemo } from "react";
import { Link } from "wouter";

import type { Schemas } from "../../api/client";
import { useRead } from "../../api/hooks";
import { NextStep } from "../../components/next_step";
import { Plot } from "../../components/plot";
import { Empty, Shown } from "../../components/states";
import { StatusBadge } from "../../components/status";
import { When } from "../../components/time";
import { count, counted } from "../../words/numbers";
import { JOB_STATUSES } from "../../words/status";

const OFTEN_MS = 5_000;
const SELDOM_MS = 30_000;
const STEP_SECONDS = 300;
const STEPS = 48;

export function Overview() {
  return (
    <div className="stack">
      <h1 className="visually-hidden">Overview</h1>
      <OpenBreakers />
      <JobsNow />
      <Attention />
      <Throughput />
      <div className="grid">
        <Queues />
        <Machinery />
        <JanitorNow />
      </div>
    </div>
  );
}

function OpenBreakers() {
  const breakers = useRead("/api/v1/breakers", {}, { every: OFTEN_MS });
  const open = breakers.data?.items.filter((breaker) => breaker.state !== "closed") ?? [];
  return open.map((breaker) => (
    <div key={breaker.name} className="banner tone-partial" role="status">
      <p>
        <strong>{breaker.name} is down.</strong>{" "}
        {breaker.held_by === null
          ? "The tasks behind it wait, and continue by themselves when it answers again."
          : `${breaker.held_by} holds its breaker open.`}
      </p>
      <p className="quiet">
        Since <When at={breaker.since} /> · {counted(breaker.waiting, "task")} waiting
        {breaker.until === null ? null : (
          <>
            {" "}
            · next probe <When at={breaker.until} />
          </>
        )}
        {breaker.reason ? ` · ${breaker.reason}` : ""} · <Link href="/gates">Breakers and limits</Link>
      </p>
    </div>
  ));
}

function JobsNow() {
  const statistics = useRead("/api/v1/statistics", {}, { every: OFTEN_MS });
  return (
    <section className="panel" aria-labelledby="jobs-now">
      <h2 id="jobs-now">Jobs</h2>
      <Shown of={statistics} rows={1}>
        {(found) =>
          Object.values(found.jobs).every((number) => number === 0) ? (
            <Empty title="There is no job yet." command="holdfast submit workflow.yaml">
              Submit a workflow here, or from a shell:
            </Empty>
          ) : (
            <div className="figures">
              {JOB_STATUSES.map((status) => (
                <Link key={status} href={`/jobs?status=${status}`} className="figure">
                  <b>{count(found.jobs[status] ?? 0)}</b>
                  <StatusBadge status={status} />
                </Link>
              ))}
              <span className="figure">
                <b>{count(found.queued)}</b>
                <span className="quiet">tasks waiting</span>
              </span>
              <span className="figure">
                <b>{count(found.running)}</b>
                <span className="quiet">tasks running</span>
              </span>
            </div>
          )
        }
      </Shown>
    </section>
  );
}

const SEVERITY: Readonly<Record<string, readonly [string, string]>> = {
  error: ["failed", "✗"],
  warning: ["partial", "!"],
  info: ["running", "i"],
};

function Attention() {
  const concerns = useRead("/api/v1/attention", {}, { every: OFTEN_MS });
  return (
    <section className="panel" aria-labelledby="attention">
      <h2 id="attention">What needs a person</h2>
      <Shown of={concerns} rows={3}>
        {(found) =>
          found.items.length === 0 ? (
            <p className="quiet">Nothing. Failed jobs that somebody has acknowledged are not shown here.</p>
          ) : (
            <ul className="concerns">
              {found.items.map((concern, index) => (
                <ConcernRow key={index} concern={concern} />
              ))}
            </ul>
          )
        }
      </Shown>
    </section>
  );
}

function ConcernRow({ concern }: { readonly concern: Schemas["Concern"] }) {
  const [tone, sign] = SEVERITY[concern.severity] ?? ["waiting", "·"];
  const target = targetOf(concern);
  const title = `${concern.cause.replaceAll("_", " ")}${concern.count > 1 ? ` × ${count(concern.count)}` : ""}`;
  return (
    <li className={`concern tone-${tone}`}>
      <span className="concern-sign" aria-label={concern.severity}>
        {sign}
      </span>
      <span className="wrap">
        {target === null ? <strong>{title}</strong> : <Link href={target}>{title}</Link>}
        {concern.workflow_id === null ? null : <span> · {concern.workflow_id}</span>}
        {concern.instance === null || IS_JOB.test(concern.instance) ? null : <span> · {concern.instance}</span>} · {concern.details}{" "}
        <span className="quiet">
          <When at={concern.since} />
        </span>
        <br />
        <NextStep step={concern.remedy} />
      </span>
    </li>
  );
}

const IS_JOB = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

function targetOf({ cause, instance, count: number, workflow_id }: Schemas["Concern"]): string | null {
  if ((cause === "job_failed" || cause === "job_partial") && number > 1 && workflow_id !== null) {
    const query = new URLSearchParams({ status: cause.slice(4), workflow: workflow_id, unacknowledged: "true" });
    return `/jobs?${query.toString()}`;
  }
  if (cause.startsWith("delivery")) return "/deliveries";
  if (cause.startsWith("webhook")) return "/webhooks";
  if (instance !== null && IS_JOB.test(instance)) return `/jobs/${instance}`;
  if (cause.startsWith("breaker")) return "/gates";
  if (cause.startsWith("queue") || cause.startsWith("no_worker")) return "/queues";
  return cause.startsWith("schedule") ? "/schedules" : null;
}

function Throughput() {
  const stats = useRead("/api/v1/stats", { query: { step: STEP_SECONDS, ...sinceOf(STEPS * STEP_SECONDS) } }, { every: SELDOM_MS });
  const steps = stats.data?.items;
  const shown = useMemo(() => {
    const found = steps ?? [];
    return {
      times: found.map((step) => Date.parse(step.start) / 1000),
      jobs: [
        // Where lines meet, the last one covers the others: no line of failures where nothing fails.
        { name: "failed", colour: "failed", values: found.map((step) => step.jobs_failed) },
        { name: "partial", colour: "partial", values: found.map((step) => step.jobs_partial) },
        { name: "completed", colour: "completed", values: found.map((step) => step.jobs_completed) },
      ],
      tasks: [
        { name: "attempts failed", colour: "failed", values: found.map((step) => step.attempts_failed) },
        { name: "tasks completed", colour: "completed", values: found.map((step) => step.tasks_completed) },
      ],
    };
  }, [steps]);
  return (
    <section className="panel" aria-labelledby="throughput">
      <h2 id="throughput">The last hours</h2>
      <Shown of={stats} rows={8}>
        {() => (
          <div className="grid">
            <div>
              <h3>Jobs that ended, in steps of {STEP_SECONDS / 60} minutes</h3>
              <Plot label="Jobs that ended, over the last four hours" times={shown.times} series={shown.jobs} />
            </div>
            <div>
              <h3>Tasks that ended</h3>
              <Plot label="Tasks that ended, over the last four hours" times={shown.times} series={shown.tasks} />
            </div>
          </div>
        )}
      </Shown>
    </section>
  );
}

/** The beginning of the span, at a whole step, so that the address of the answer changes seldom. */
function sinceOf(seconds: number): { since: string } {
  const step = STEP_SECONDS * 1000;
  return { since: new Date(Math.floor(Date.now() / step) * step - seconds * 1000).toISOString() };
}

function Queues() {
  const queues = useRead("/api/v1/queues", {}, { every: OFTEN_MS });
  return (
    <section className="panel" aria-labelledby="queues">
      <h2 id="queues">Queues</h2>
      <Shown of={queues}>
        {(found) =>
          found.items.length === 0 ? (
            <p className="quiet">No task waits or runs.</p>
          ) : (
            <div tabIndex={0} className="scroll-x">
              <table className="plain-table">
                <thead>
                  <tr>
                    <th>queue</th>
                    <th className="number">waiting</th>
                    <th className="number">held</th>
                    <th className="number">running</th>
                    <th>oldest</th>
                    <th className="number">workers</th>
                  </tr>
                </thead>
                <tbody>
                  {found.items.map((queue) => (
                    <tr key={queue.queue}>
                      <td>
                        {queue.queue}
                        {queue.paused === null ? null : <span className="held"> ‖ paused by {queue.paused.by}</span>}
                      </td>
                      <td className="number">{count(queue.queued)}</td>
                      <td className="number">{count(queue.held)}</td>
                      <td className="number">{count(queue.running)}</td>
                      <td>
                        <When at={queue.since} />
                      </td>
                      <td className="number">{queue.workers.length === 0 && queue.queued > 0 ? "none!" : queue.workers.length}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
    </section>
  );
}

function Machinery() {
  const fleet = useRead("/api/v1/fleet", {}, { every: OFTEN_MS });
  return (
    <section className="panel" aria-labelledby="machinery">
      <h2 id="machinery">Orchestrators and workers</h2>
      <Shown of={fleet}>
        {(found) => (
          <>
            {found.orchestrators.length === 0 ? (
              <Empty title="No orchestrator is running: jobs do not move." command="holdfast orchestrator" />
            ) : null}
            {found.workers.length === 0 ? <Empty title="No worker is running." command="holdfast worker --handlers MODULE" /> : null}
            <ul className="plain-list">
              {found.orchestrators.map((one) => (
                <li key={`o${one.id}`}>
                  <strong>{one.name}</strong> <span className="quiet">orchestrator {one.version}</span> · {counted(one.jobs, "job")} · started{" "}
                  <When at={one.started_at} />
                </li>
              ))}
              {found.workers.map((one) => (
                <li key={`w${one.id}`}>
                  <strong>{one.name}</strong> <span className="quiet">worker {one.version}</span> · {count(one.tasks)} of{" "}
                  {counted(one.concurrency, "slot")} · started <When at={one.started_at} />
                  {one.changed_files.length > 0 ? <span className="held"> runs older code</span> : null}
                </li>
              ))}
            </ul>
          </>
        )}
      </Shown>
    </section>
  );
}

function JanitorNow() {
  const log = useRead("/api/v1/janitor", { query: { limit: 5 } }, { every: SELDOM_MS });
  return (
    <section className="panel" aria-labelledby="janitor-now">
      <h2 id="janitor-now">Janitor</h2>
      <Shown of={log}>
        {(found) => (
          <>
            <p className="quiet">
              {found.leader === null ? (
                "No process looks after the jobs now."
              ) : (
                <>
                  {found.leader.holder} looks after the jobs, since <When at={found.leader.since} />.
                </>
              )}
            </p>
            <ul className="plain-list">
              {found.actions.map((action, index) => (
                <li key={index}>
                  {action.action}: {action.reason}{" "}
                  <span className="quiet">
                    <When at={action.at} />
                  </span>
                </li>
              ))}
            </ul>
            {found.actions.length === 0 ? <p className="quiet">It had nothing to repair.</p> : <Link href="/janitor">All actions</Link>}
          </>
        )}
      </Shown>
    </section>
  );
}
