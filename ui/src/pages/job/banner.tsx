/** What is missing, why, and what continues from here; or why the job does not move. */

import { useState } from "react";
import { Link } from "wouter";

import { useRead } from "../../api/hooks";
import { Command } from "../../components/command";
import { Shown } from "../../components/states";
import { StatusBadge } from "../../components/status";
import { When } from "../../components/time";
import { counted } from "../../words/numbers";
import { hasEnded } from "../../words/status";
import type { Job } from "./job";
import { reasonWords } from "./reasons";

const TONES: Readonly<Record<string, string>> = { failed: "failed", partial: "partial", cancelled: "withdrawn" };

export function Banner({ job }: { readonly job: Job }) {
  return (
    <>
      {job.unreadable === null ? null : (
        <div className="banner tone-partial">
          <p>This version of the service cannot read the definition of the job: {job.unreadable}</p>
        </div>
      )}
      {TONES[job.status] === undefined ? null : <Lacking job={job} />}
      {job.corrected === null ? null : (
        <div className="banner tone-running">
          <p>
            Corrected in generation {job.corrected.generation}
            {job.corrected.by ? ` by ${job.corrected.by}` : ""}: {job.corrected.changes.join(", ")}
            {job.corrected.reason ? ` (${job.corrected.reason})` : ""}. <Link href={`/jobs/${job.job_id}/history`}>History</Link>
          </p>
        </div>
      )}
      {hasEnded(job.status) ? null : <WhyNot job={job} />}
    </>
  );
}

function Lacking({ job }: { readonly job: Job }) {
  const { outcome } = job;
  const objectives = [...outcome.primary, ...outcome.secondary];
  const bad = objectives.filter((one) => one.status === "failed" || one.status === "cancelled");
  const done = objectives.filter((one) => one.status === "completed");
  const kept = Object.entries(outcome.deliverables).filter(([, one]) => one.usable);
  return (
    <div className={`banner tone-${TONES[job.status] ?? "failed"}`} role="region" aria-label="What is missing">
      {job.error === null ? null : (
        <p className="wrap">
          <strong>{job.error.code}</strong>
          {job.error.node === null ? null : (
            <>
              {" "}
              in <Link href={nodeAddress(job, job.error.node, job.error.index)}>{placeWords(job.error.node, job.error.index)}</Link>
            </>
          )}
          : {job.error.message}
          {job.error.hint ? <span className="quiet"> {job.error.hint}</span> : null}
        </p>
      )}
      {bad.length === 0 ? null : (
        <p>
          Missing:{" "}
          {bad.map((one) => (
            <span key={one.node} className="spaced">
              <Link href={nodeAddress(job, one.node, null)}>{one.node}</Link> <StatusBadge status={one.status} note={one.details} />
            </span>
          ))}
        </p>
      )}
      <p>
        Kept: {counted(job.counts.completed, "completed task")}
        {done.length > 0 ? ` in ${done.map((one) => one.node).join(", ")}` : ""}.
        {kept.map(([name, one]) => ` ${counted(one.count, "deliverable")} of ${name}${one.location ? ` at ${one.location}` : ""}.`)}
      </p>
      {Object.entries(job.look_by_hand ?? {}).map(([node, why]) => (
        <p key={node}>
          Look by hand at <Link href={nodeAddress(job, node, null)}>{node}</Link>: {why}
        </p>
      ))}
      {outcome.recovery.map((one) => (
        <p key={one.command}>
          <Command text={one.command} />
        </p>
      ))}
    </div>
  );
}

function WhyNot({ job }: { readonly job: Job }) {
  const [isOpen, setOpen] = useState(job.held !== null);
  return (
    <div className="why">
      <button type="button" className="plain" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? "▾" : "▸"} Why is it not finished?
      </button>
      {isOpen ? <Reasons jobId={job.job_id} /> : null}
    </div>
  );
}

function Reasons({ jobId }: { readonly jobId: string }) {
  const why = useRead("/api/v1/jobs/{job_id}/why", { path: { job_id: jobId } }, { every: 5_000 });
  return (
    <Shown of={why} rows={2}>
      {(found) => (
        <ul className="plain-list">
          {found.reasons.map((reason, index) => (
            <li key={index} className="wrap">
              {reason.node === null ? null : <strong>{placeWords(reason.node, reason.index)}: </strong>}
              {reasonWords(reason.cause, reason.details)}
              {reason.since === null ? null : (
                <span className="quiet">
                  {" "}
                  since <When at={reason.since} />
                </span>
              )}
              {reason.until === null ? null : (
                <span className="quiet">
                  , until <When at={reason.until} />
                </span>
              )}{" "}
              {reason.command ? <Command text={reason.command} /> : null}
            </li>
          ))}
          {found.reasons.length === 0 ? <li>Nothing keeps it from its end.</li> : null}
        </ul>
      )}
    </Shown>
  );
}

export function nodeAddress(job: { readonly job_id: string }, node: string, index: number | null): string {
  return `/jobs/${job.job_id}/nodes/${encodeURIComponent(node)}${index === null ? "" : `/${index}`}`;
}

export function placeWords(node: string, index: number | null): string {
  return index === null ? node : `${node}, item ${index}`;
}
