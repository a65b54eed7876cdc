/** One task: what it was given, what it printed, what it made, and each of its attempts. */

import { Link } from "wouter";

import { ROOT, type Schemas } from "../../api/client";
import { useRead } from "../../api/hooks";
import { Copy } from "../../components/command";
import { JsonTree } from "../../components/json_tree";
import { Log } from "../../components/log";
import { Shown } from "../../components/states";
import { StatusBadge } from "../../components/status";
import { Lasting, When } from "../../components/time";
import { JsonButton } from "../../verbs/json_dialog";
import { VerbButton } from "../../verbs/verb_button";
import { bytes, count, percent } from "../../words/numbers";
import { hasEnded } from "../../words/status";
import { nodeAddress } from "../job/banner";
import type { Job } from "../job/job";

type Details = Schemas["TaskDetails"];
const LIVE_MS = 1_000;

export function TaskPage({ job, node, item }: { readonly job: Job; readonly node: string; readonly item: number }) {
  const last = (job.nodes.find((one) => one.node === node)?.counts.total ?? 1) - 1;
  return (
    <>
      <div className="head">
        <h1>
          {node}, item {count(item)}
        </h1>
        <span className="grow" />
        {item > 0 ? (
          <Link className="button" href={nodeAddress(job, node, item - 1)}>
            ← Item before
          </Link>
        ) : null}
        {item < last ? (
          <Link className="button" href={nodeAddress(job, node, item + 1)}>
            Next item →
          </Link>
        ) : null}
      </div>
      <Task job={job} node={node} item={item} />
    </>
  );
}

export function Task({ job, node, item }: { readonly job: Job; readonly node: string; readonly item: number }) {
  const details = useRead(
    "/api/v1/jobs/{job_id}/tasks/{node}/{item}",
    { path: { job_id: job.job_id, node, item } },
    // What a running attempt prints makes no event: it is asked for.
    { every: hasEnded(job.status) ? false : LIVE_MS, keep: true },
  );
  return (
    <Shown of={details} rows={8}>
      {(task) => (
        <div className="stack">
          <Summary job={job} task={task} item={item} />
          <Attempts task={task} />
          <div className="grid">
            <Value title="Params" name="params" has={task.has_params} value={task.params} job={job} task={task}>
              {task.corrected ? <p className="held">A person gave these params.</p> : null}
            </Value>
            <Value title="Output" name="output" has={task.has_output} value={task.output} job={job} task={task} />
          </div>
          <Checkpoints task={task} />
        </div>
      )}
    </Shown>
  );
}

function Summary({ job, task, item }: { readonly job: Job; readonly task: Details; readonly item: number }) {
  const args = item < 0 ? { node: task.node } : { node: task.node, items: [item] };
  const canClear = task.status !== "pending" && task.has_params;
  return (
    <section className="panel" aria-label="How it stands">
      <div className="head">
        <StatusBadge status={task.status} note={task.gone ? "gone" : task.attempt > 1 ? `attempt ${task.attempt}` : null} />
        <span className="quiet">
          {task.worker ?? "no worker yet"} · began <When at={task.started_at} /> · took <Lasting from={task.started_at} to={task.finished_at} />
        </span>
        <span className="grow" />
        {canClear && item >= 0 ? (
          <VerbButton jobId={job.job_id} verb="clear" args={args} kind={task.status === "failed" ? "main-action" : undefined}>
            {task.status === "failed" ? "Retry this item …" : "Run this item again …"}
          </VerbButton>
        ) : null}
        <JsonButton
          button="With other params …"
          isPossible={canClear}
          title="Run the task with other params"
          label="Params"
          text={JSON.stringify(task.params, null, 2)}
          wishOf={(params) => ({ jobId: job.job_id, verb: "clear", args: { ...args, params } })}
        >
          <p>The task is given these params from now on. The job notes who gave them.</p>
        </JsonButton>
      </div>
      {task.error === null ? null : <Trouble error={task.error} title="Why it failed" />}
      {task.undo_error === null ? null : <Trouble error={task.undo_error} title="Why it could not be undone" />}
      <Progress progress={task.progress} />
    </section>
  );
}

function Trouble({ error, title }: { readonly error: Schemas["Failure"]; readonly title: string }) {
  const text = `${error.code ?? ""}: ${error.message ?? ""}`;
  return (
    <details open className="trouble">
      <summary>
        {title}: <strong>{error.code}</strong> ({error.class})
      </summary>
      <div className="log">
        <pre tabIndex={0} aria-label="The error">
          {error.message}
        </pre>
        <Copy text={text} what="error" />
      </div>
      {error.hint ? <p className="quiet">{error.hint}</p> : null}
    </details>
  );
}

function Progress({ progress }: { readonly progress: Details["progress"] }) {
  if (progress === null) return null;
  const { done, total, text } = progress as { readonly done?: unknown; readonly total?: unknown; readonly text?: unknown };
  const share = typeof done === "number" && typeof total === "number" && total > 0 ? done / total : null;
  return (
    <p>
      {share === null ? null : <progress value={share} aria-label="Progress" />} {String(done ?? "?")} of {String(total ?? "?")}
      {share === null ? "" : ` (${percent(share)})`}
      {text ? ` · ${String(text)}` : ""}
    </p>
  );
}

function Attempts({ task }: { readonly task: Details }) {
  if (task.attempts.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="attempts">
      <h2 id="attempts">Attempts</h2>
      {[...task.attempts].reverse().map((attempt, index) => (
        <details key={attempt.attempt} open={index === 0} className="attempt">
          <summary>
            Attempt {attempt.attempt}: {attempt.outcome}
            {attempt.error === null ? "" : ` · ${attempt.error.code ?? ""}`}{" "}
            <span className="quiet">
              · {attempt.worker} · <When at={attempt.started_at} /> · <Lasting from={attempt.started_at} to={attempt.finished_at} />
            </span>
          </summary>
          {attempt.error === null ? null : <p className="wrap">{attempt.error.message}</p>}
          {attempt.log ? <Log text={attempt.log} isLive={attempt.finished_at === null} /> : <p className="quiet">It has printed nothing.</p>}
          {attempt.extra === null ? null : <JsonTree value={attempt.extra} />}
        </details>
      ))}
    </section>
  );
}

function Checkpoints({ task }: { readonly task: Details }) {
  if (task.checkpoints.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="checkpoints">
      <h2 id="checkpoints">Checkpoints</h2>
      <p className="quiet">The next attempt continues from the last one.</p>
      {[...task.checkpoints].reverse().map((one) => (
        <details key={one.number}>
          <summary>
            {one.number}. {one.name}{" "}
            <span className="quiet">
              · <When at={one.saved_at} /> · {bytes(one.bytes)}
            </span>
          </summary>
          <JsonTree value={one.value} />
        </details>
      ))}
    </section>
  );
}

interface ValueProps {
  readonly title: string;
  readonly name: "params" | "output";
  readonly has: boolean;
  readonly value: unknown;
  readonly job: Job;
  readonly task: Details;
  readonly children?: React.ReactNode;
}

function Value({ title, name, has, value, job, task, children }: ValueProps) {
  const query = task.index === null ? "" : `?item=${task.index}`;
  return (
    <section className="panel" aria-label={title}>
      <div className="head">
        <h2>{title}</h2>
        <span className="grow" />
        {has ? (
          <a href={`${ROOT}/api/v1/jobs/${job.job_id}/nodes/${encodeURIComponent(task.node)}/${name}${query}`} target="_blank" rel="noreferrer">
            as JSON
          </a>
        ) : null}
      </div>
      {children}
      {has ? <JsonTree value={value} /> : <p className="quiet">There is none yet.</p>}
    </section>
  );
}
