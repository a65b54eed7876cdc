/** One node of a job: what failed and how it groups, its items, and what a person can do. */

import { Link } from "wouter";

import type { Schemas } from "../../api/client";
import { Empty } from "../../components/states";
import { HeldMark, StateBar, StatusBadge } from "../../components/status";
import { Lasting, When } from "../../components/time";
import { JsonButton } from "../../verbs/json_dialog";
import { VerbButton } from "../../verbs/verb_button";
import { count, counted } from "../../words/numbers";
import { hasEnded } from "../../words/status";
import { nodeAddress } from "../job/banner";
import type { Job } from "../job/job";
import { Task } from "../task/task";
import { Failures } from "./failures";
import { Items } from "./items";

type NodeState = Schemas["NodeState"];

export function NodePage({ job, name }: { readonly job: Job; readonly name: string }) {
  const node = job.nodes.find((one) => one.node === name);
  if (node === undefined) return <Empty title={`The job has no node '${name}'.`}>A correction may have taken it away: see the history.</Empty>;
  const hasItems = node.type === "fan_out" || node.counts.total > 1;
  return (
    <div className="stack">
      <header>
        <div className="head">
          <h1>{node.node}</h1>
          <StatusBadge status={node.status} note={node.attempt !== null && node.attempt > 1 ? `attempt ${node.attempt}` : null} />
          <HeldMark held={node.held} />
          <span className="grow" />
          <Actions job={job} node={node} />
        </div>
        {node.counts.total > 1 ? (
          <div className="job-bar">
            <StateBar counts={node.counts} />
            <span className="quiet">
              {count(node.counts.completed)} of {counted(node.counts.total, "item")} completed
              {node.counts.failed > 0 ? `, ${count(node.counts.failed)} failed` : ""}
            </span>
          </div>
        ) : null}
        <p className="quiet">
          {node.type} · {node.importance ?? "no importance"} · began <When at={node.started_at} /> · took{" "}
          <Lasting from={node.started_at} to={node.finished_at} /> · <Link href={`/jobs/${job.job_id}/events?node=${encodeURIComponent(node.node)}`}>events</Link>
        </p>
        <Notes job={job} node={node} />
      </header>
      {hasItems && node.counts.failed > 0 ? <Failures job={job} node={node.node} /> : null}
      {hasItems ? <Items job={job} node={node.node} /> : <Task job={job} node={node.node} item={-1} />}
    </div>
  );
}

function Notes({ job, node }: { readonly job: Job; readonly node: NodeState }) {
  return (
    <>
      {node.error === null ? null : (
        <p className="wrap">
          <strong>{node.error.code}</strong>
          {node.error.index === null ? null : (
            <>
              {" "}
              in <Link href={nodeAddress(job, node.node, node.error.index)}>item {count(node.error.index)}</Link>
            </>
          )}
          : {node.error.message} {node.error.hint ? <span className="quiet">{node.error.hint}</span> : null}
        </p>
      )}
      {node.retry_at === null ? null : (
        <p>
          The next attempt begins <When at={node.retry_at} />.
        </p>
      )}
      {node.unserved === null ? null : <p>No worker serves {counted(node.unserved.tasks, "task")} in the queue {node.unserved.queue}.</p>}
      {node.by_hand === null ? null : (
        <p>
          Ended by hand ({node.by_hand.verb}) by {node.by_hand.by}, <When at={node.by_hand.at} />
          {node.by_hand.reason ? `: ${node.by_hand.reason}` : "."}
        </p>
      )}
      {node.stale ? <p>Stale: it completed before a node ran again from which it has its data.</p> : null}
      {node.undo ? (
        <p>
          Undone: {counted(node.undo.undone, "task")}
          {node.undo.failed > 0 ? `; ${counted(node.undo.failed, "task")} could not be undone: ${node.undo.error?.message ?? ""}` : ""}
        </p>
      ) : null}
      {node.corrected ? <p>A person gave the params of {counted(node.corrected, "task")}.</p> : null}
    </>
  );
}

function Actions({ job, node }: { readonly job: Job; readonly node: NodeState }) {
  const isBad = node.status === "failed" || node.status === "cancelled" || node.counts.failed > 0;
  const hasRun = node.status !== "pending" && node.type !== "start" && node.type !== "end";
  const args = { node: node.node };
  return (
    <span className="row">
      {isBad ? (
        <VerbButton jobId={job.job_id} verb="retry" args={args} kind="main-action" title="Run its failed tasks again, and what follows">
          Retry …
        </VerbButton>
      ) : null}
      {hasRun ? (
        <VerbButton jobId={job.job_id} verb="rerun" args={args} title="Run all of its tasks again, and what follows">
          Run again from here …
        </VerbButton>
      ) : null}
      {node.status === "completed" ? null : (
        <VerbButton jobId={job.job_id} verb="skip" args={args} title="Let the job go on without it">
          Skip …
        </VerbButton>
      )}
      <JsonButton
        button="Set its result …"
        hint="Give its result by hand"
        isPossible={node.status !== "completed"}
        title={`The result of ${node.node}`}
        label="Result"
        text="{}"
        wishOf={(output) => ({ jobId: job.job_id, verb: "set", args: { node: node.node, output } })}
      />
      {hasEnded(job.status) && node.counts.completed > 0 ? (
        <VerbButton jobId={job.job_id} verb="undo" args={args} kind="danger" title="Take back this node, and what follows">
          Undo from here …
        </VerbButton>
      ) : null}
    </span>
  );
}
