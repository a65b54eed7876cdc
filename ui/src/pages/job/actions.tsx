/** What a person can do to a job now. What the role does not allow is not shown. */

import { useState } from "react";
import { Link } from "wouter";

import { useChange } from "../../api/hooks";
import { useMay } from "../../api/session";
import { Command, commandLine } from "../../components/command";
import { Dialog } from "../../components/dialog";
import { Failed } from "../../components/states";
import { acknowledge } from "../../verbs/send";
import { VerbButton } from "../../verbs/verb_button";
import { hasEnded } from "../../words/status";
import { CorrectDialog } from "./correct_dialog";
import type { Job } from "./job";

export function JobActions({ job }: { readonly job: Job }) {
  const maySubmit = useMay("submit");
  const mayOperate = useMay("operate");
  const [isCorrecting, setCorrecting] = useState(false);
  const ended = hasEnded(job.status);
  const isLacking = job.status === "failed" || job.status === "partial" || job.status === "cancelled";
  const isPaused = job.held?.by === "pause";
  return (
    <span className="row">
      {isLacking ? (
        <VerbButton jobId={job.job_id} verb="resume" kind="main-action" title="Run again only what is missing">
          Resume …
        </VerbButton>
      ) : null}
      {ended && mayOperate ? (
        <button type="button" className="button" onClick={() => setCorrecting(true)} title="Resume with other inputs">
          Correct …
        </button>
      ) : null}
      {ended ? null : isPaused ? (
        <VerbButton jobId={job.job_id} verb="unpause" kind="main-action">
          Let go on …
        </VerbButton>
      ) : (
        <VerbButton jobId={job.job_id} verb="pause">
          Pause …
        </VerbButton>
      )}
      {ended ? null : (
        <VerbButton jobId={job.job_id} verb="cancel" kind="danger">
          Cancel …
        </VerbButton>
      )}
      {(job.status === "failed" || job.status === "partial") && job.acknowledged === null && mayOperate ? <Acknowledge job={job} /> : null}
      {ended && job.counts.completed > 0 ? (
        <VerbButton jobId={job.job_id} verb="undo" kind="danger" title="Take back what it has completed">
          Undo …
        </VerbButton>
      ) : null}
      {maySubmit ? (
        <Link className="button" href={`/workflows/${encodeURIComponent(job.workflow_id)}/submit?like=${job.job_id}`}>
          Run again with these inputs …
        </Link>
      ) : null}
      {isCorrecting ? <CorrectDialog job={job} onClose={() => setCorrecting(false)} /> : null}
    </span>
  );
}

function Acknowledge({ job }: { readonly job: Job }) {
  const [isOpen, setOpen] = useState(false);
  const [reason, setReason] = useState("");
  const change = useChange(() => acknowledge(job.job_id, reason.trim()));
  return (
    <>
      <button type="button" className="button" onClick={() => setOpen(true)}>
        Acknowledge …
      </button>
      {isOpen ? (
        <Dialog title="Acknowledge the job" onClose={() => setOpen(false)}>
          <p>Note that somebody has seen this job, and that it needs nothing more. It leaves the list of what needs a person.</p>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              change.mutate(undefined, { onSuccess: () => setOpen(false) });
            }}
          >
            <label className="field">
              <span>Reason</span>
              <input value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} />
            </label>
            {change.error ? <Failed error={change.error} /> : null}
            <div className="dialog-foot">
              <span className="grow">
                <Command text={commandLine("acknowledge", job.job_id, ...(reason.trim() ? ["--reason", reason.trim()] : []))} />
              </span>
              <button type="submit" className="button main-action" disabled={change.isPending}>
                Acknowledge
              </button>
            </div>
          </form>
        </Dialog>
      ) : null}
    </>
  );
}
