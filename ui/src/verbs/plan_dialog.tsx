/** What a verb would do, before it is done. "Do it" does exactly what is shown, or nothing. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { problemFrom } from "../api/client";
import { PLAN, useChange } from "../api/hooks";
import { Command } from "../components/command";
import { Dialog } from "../components/dialog";
import { Failed, Loading } from "../components/states";
import { hasStale, isBlocked, needsConfirmation, PlanView } from "./plan_view";
import { carryOut, commandOf, planOf, titleOf, type Wish } from "./send";

const DESTROYS: ReadonlySet<string> = new Set(["cancel", "undo", "skip", "set"]);

export function PlanDialog({ wish, onClose }: { readonly wish: Wish; readonly onClose: () => void }) {
  const [stale, setStale] = useState<"keep" | "rerun" | null>(null);
  const [reason, setReason] = useState("");
  const [isConfirmed, setConfirmed] = useState(false);
  const chosen: Wish = stale === null ? wish : { ...wish, args: { ...wish.args, stale } };
  const plan = useQuery({
    queryKey: [PLAN, chosen],
    queryFn: () => planOf(chosen),
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
  const change = useChange(async () => {
    if (plan.data === undefined) throw new Error("There is no plan yet.");
    return carryOut(chosen, plan.data, reason.trim());
  });
  function again(): void {
    change.reset();
    setConfirmed(false);
    void plan.refetch();
  }
  const shown = plan.data;
  const mustConfirm = shown !== undefined && (needsConfirmation(shown) || DESTROYS.has(wish.verb));
  const mustChoose = shown !== undefined && hasStale(shown) && stale === null;
  const isReady =
    shown !== undefined && !isBlocked(shown) && !mustChoose && (!mustConfirm || isConfirmed) && !change.isPending && !plan.isFetching;

  if (change.isSuccess) {
    return (
      <Dialog title={titleOf(wish.verb)} onClose={onClose}>
        <p role="status">
          {change.data.answer === "applied"
            ? "Done: the owner of the job has applied it."
            : "Sent. The owner of the job has not answered yet; the page shows what comes of it."}
        </p>
        <div className="dialog-foot">
          <button type="button" className="button main-action" onClick={onClose} autoFocus>
            Close
          </button>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title={titleOf(wish.verb)} onClose={onClose} isWide>
      {plan.error ? <Failed error={plan.error} again={again} /> : shown === undefined ? <Loading rows={4} /> : <PlanView plan={shown} />}
      {shown !== undefined && hasStale(shown) ? (
        <fieldset className="choices">
          <legend>What happens to completed work that would be done in another way now?</legend>
          <label>
            <input type="radio" name="stale" checked={stale === "rerun"} onChange={() => setStale("rerun")} /> Run it again
          </label>
          <label>
            <input type="radio" name="stale" checked={stale === "keep"} onChange={() => setStale("keep")} /> Keep its results as they are
          </label>
        </fieldset>
      ) : null}
      {change.error ? (
        <>
          <Failed error={change.error} />
          {problemFrom(change.error).status === 409 ? (
            <p>
              The job may have moved on since the plan was made.{" "}
              <button type="button" className="button" onClick={again}>
                Make a new plan
              </button>
            </p>
          ) : null}
        </>
      ) : null}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) change.mutate(undefined);
        }}
      >
        <label className="field">
          <span>Reason</span>
          <input value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} placeholder="Why; it is stored with the job." />
        </label>
        {mustConfirm ? (
          <label className="row">
            <input type="checkbox" checked={isConfirmed} onChange={(event) => setConfirmed(event.target.checked)} /> I have read the plan, and
            want this.
          </label>
        ) : null}
        <div className="dialog-foot">
          <span className="grow">
            <Command text={shown?.command ?? commandOf(chosen)} />
          </span>
          <button type="button" className="button" onClick={onClose}>
            Leave it
          </button>
          <button type="submit" className={DESTROYS.has(wish.verb) ? "button danger" : "button main-action"} disabled={!isReady}>
            {change.isPending ? "Sending …" : "Do it"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
