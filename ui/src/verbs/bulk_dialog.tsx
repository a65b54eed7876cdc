/** One verb for many jobs: a plan for each, one summary, one confirmation, and the result of each. */

import { useQueries } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { problemFrom } from "../api/client";
import { isShown, PLAN, queries } from "../api/hooks";
import { Dialog } from "../components/dialog";
import { counted } from "../words/numbers";
import { hasStale, isBlocked, summaryOf } from "./plan_view";
import { acknowledge, carryOut, planOf, type Plan, type Verb } from "./send";

export type BulkVerb = Extract<Verb, "resume" | "cancel" | "pause" | "unpause"> | "acknowledge";
type Result = "waits" | "sending" | "done" | "sent" | { readonly refused: string };

const TITLES: Readonly<Record<BulkVerb, string>> = {
  resume: "Resume",
  cancel: "Cancel",
  pause: "Pause",
  unpause: "Let go on",
  acknowledge: "Acknowledge",
};
const AT_ONCE = 4;

interface Props {
  readonly verb: BulkVerb;
  readonly jobIds: readonly string[];
  readonly onClose: () => void;
}

export function BulkDialog({ verb, jobIds, onClose }: Props) {
  const [reason, setReason] = useState("");
  const [results, setResults] = useState<ReadonlyMap<string, Result>>(new Map());
  const [state, setState] = useState<"asks" | "works" | "over">("asks");
  const plans = useQueries({
    queries: jobIds.map((jobId) => ({
      queryKey: [PLAN, { jobId, verb }],
      queryFn: () => (verb === "acknowledge" ? Promise.resolve(null) : planOf({ jobId, verb })),
      staleTime: Infinity,
      gcTime: 0,
      retry: false,
      refetchOnWindowFocus: false,
    })),
  });
  const judged = jobIds.map((jobId, index) => ({ jobId, plan: plans[index]?.data, error: plans[index]?.error }));
  const isPlanning = plans.some((plan) => plan.isPending);
  const possible = judged.filter(({ plan, error }) => !error && (verb === "acknowledge" || (plan && !isBlocked(plan) && !hasStale(plan))));

  async function work(): Promise<void> {
    setState("works");
    const waiting = [...possible];
    async function next(): Promise<void> {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
        const { jobId, plan } = one;
        note(jobId, "sending");
        try {
          note(jobId, await send(jobId, plan ?? null));
        } catch (error) {
          note(jobId, { refused: problemFrom(error).detail });
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, next));
    setState("over");
    void queries.invalidateQueries({ predicate: isShown });
  }
  async function send(jobId: string, plan: Plan | null): Promise<Result> {
    if (verb === "acknowledge") {
      await acknowledge(jobId, reason.trim());
      return "done";
    }
    if (plan === null) throw new Error("There is no plan.");
    const result = await carryOut({ jobId, verb }, plan, reason.trim());
    return result.answer === "applied" ? "done" : "sent";
  }
  function note(jobId: string, result: Result): void {
    setResults((before) => new Map(before).set(jobId, result));
  }
  const tasks = possible.reduce((sum, { plan }) => sum + (plan?.tasks ?? 0), 0);
  return (
    <Dialog title={`${TITLES[verb]} ${counted(jobIds.length, "job")}`} onClose={onClose} isWide>
      <p>
        {isPlanning
          ? "Making a plan for each job …"
          : `${counted(possible.length, "job")} can be changed${verb === "acknowledge" ? "" : `: ${counted(tasks, "task")} in all`}.`}
        {!isPlanning && possible.length < jobIds.length ? ` ${counted(jobIds.length - possible.length, "job")} cannot; the list says why.` : ""}
      </p>
      <div tabIndex={0} className="bulk-list scroll-x">
        <table className="plain-table">
          <tbody>
            {judged.map(({ jobId, plan, error }) => (
              <tr key={jobId}>
                <td>
                  <Link href={`/jobs/${jobId}`} className="mono">
                    …{jobId.slice(-8)}
                  </Link>
                </td>
                <td>{resultWords(results.get(jobId)) ?? planWords(verb, plan, error)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {state === "asks" ? (
        <label className="field">
          <span>Reason</span>
          <input value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} placeholder="Why; it is stored with each job." />
        </label>
      ) : null}
      <div className="dialog-foot">
        <button type="button" className="button" onClick={onClose}>
          {state === "over" ? "Close" : "Leave it"}
        </button>
        {state === "over" ? null : (
          <button
            type="button"
            className={verb === "cancel" ? "button danger" : "button main-action"}
            disabled={isPlanning || possible.length === 0 || state === "works"}
            onClick={() => void work()}
          >
            {state === "works" ? "Sending …" : `Do it for ${counted(possible.length, "job")}`}
          </button>
        )}
      </div>
    </Dialog>
  );
}

function planWords(verb: BulkVerb, plan: Plan | null | undefined, error: unknown): string {
  if (error) return problemFrom(error).detail;
  if (verb === "acknowledge") return "";
  if (plan === undefined || plan === null) return "…";
  const blocked = plan.steps.find((step) => step.blocked)?.blocked;
  if (blocked) return blocked;
  return hasStale(plan) ? "Has stale work: open the job and decide there." : summaryOf(plan);
}

function resultWords(result: Result | undefined): string | null {
  if (result === undefined || result === "waits") return null;
  if (typeof result === "object") return `✗ Refused: ${result.refused}`;
  return { sending: "Sending …", done: "✓ Done", sent: "✓ Sent; the owner has not answered yet" }[result];
}
