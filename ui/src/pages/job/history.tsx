/** The generations of a job: who did what, by which plan, and how it ended. */

import { Link } from "wouter";

import { usePages } from "../../api/hooks";
import { Failed, Loading } from "../../components/states";
import { StatusBadge } from "../../components/status";
import { Lasting, When } from "../../components/time";
import { counted } from "../../words/numbers";
import type { Job } from "./job";

export function History({ job }: { readonly job: Job }) {
  const generations = usePages("/api/v1/jobs/{job_id}/generations", { path: { job_id: job.job_id } });
  if (generations.error) return <Failed error={generations.error} />;
  if (generations.isLoading) return <Loading />;
  return (
    <ol className="stack history">
      {generations.items.map((one) => (
        <li key={one.generation} className="panel">
          <div className="head">
            <h2>Generation {one.generation}</h2>
            {one.ended === null ? null : <StatusBadge status={one.ended} />}
            <span className="quiet">
              <When at={one.at} />, <Lasting from={one.at} to={one.ended_at} />
            </span>
          </div>
          <p>
            {one.verb === null ? "Submitted" : `${one.verb} by ${one.actor ?? "the job itself"}`}
            {one.reason ? `: “${one.reason}”` : ""}
            {one.tasks === null ? "" : ` · ${counted(one.tasks, "task")}`}
          </p>
          <Touched title="Ran again" nodes={one.reset} />
          <Touched title="Undone" nodes={one.undone} />
          {one.correction === null ? null : (
            <p>
              Corrected: {one.correction.changed.join(", ")}
              {one.correction.gone.length > 0 ? `; gone: ${one.correction.gone.join(", ")}` : ""}
              {one.correction.stale ? `; stale work: ${one.correction.stale === "keep" ? "kept" : "ran again"}` : ""}.{" "}
              <Link href={`/jobs/${job.job_id}/definition?generation=${one.generation}`}>What differs</Link>
            </p>
          )}
          {one.code === null ? null : (
            <p className="wrap">
              <strong>{one.code}</strong>: {one.message}
            </p>
          )}
          {one.plan_id === null ? null : <p className="quiet small mono">plan {one.plan_id}</p>}
        </li>
      ))}
    </ol>
  );
}

function Touched({ title, nodes }: { readonly title: string; readonly nodes: Readonly<Record<string, number | null>> | null }) {
  if (nodes === null || Object.keys(nodes).length === 0) return null;
  return (
    <p>
      {title}:{" "}
      {Object.entries(nodes)
        .map(([node, tasks]) => (tasks === null ? node : `${node} (${counted(tasks, "task")})`))
        .join(", ")}
    </p>
  );
}
