/** A plan in a form that a person can judge: what stays first, then what changes, with numbers and reasons. */

import { count, counted } from "../words/numbers";
import type { Plan } from "./send";

type Step = Plan["steps"][number];

const ACTIONS: Readonly<Record<string, readonly [string, string, string]>> = {
  keep: ["Kept", "completed", "✓"],
  rerun: ["Runs again", "running", "▶"],
  new: ["Runs for the first time", "running", "＋"],
  stale: ["Stale", "partial", "!"],
  skip: ["Skipped", "withdrawn", "»"],
  set: ["Set by hand", "partial", "✎"],
  undo: ["Undone", "failed", "↶"],
  gone: ["Gone", "withdrawn", "−"],
};
const ORDER = ["keep", "stale", "rerun", "new", "set", "skip", "undo", "gone"];

export function PlanView({ plan }: { readonly plan: Plan }) {
  const groups = groupsOf(plan.steps);
  return (
    <div>
      <p className="plan-summary">{summaryOf(plan)}</p>
      {plan.corrected?.length ? <p>Corrected: {plan.corrected.join(", ")}.</p> : null}
      <div tabIndex={0} className="scroll-x">
        <table className="plain-table plan-steps">
          <thead>
            <tr>
              <th>what happens</th>
              <th>node</th>
              <th className="number">tasks</th>
              <th>why</th>
            </tr>
          </thead>
          <tbody>
            {groups.map(([action, steps]) =>
              steps.map((step, index) => {
                const [word, tone, sign] = ACTIONS[action] ?? [action, "waiting", "·"];
                return (
                  <tr key={`${action} ${step.node} ${index}`}>
                    <td>
                      <span className={`badge tone-${tone}`}>
                        <span aria-hidden="true">{sign}</span> {word}
                      </span>
                    </td>
                    <td>{step.node}</td>
                    <td className="number">{step.items === null ? "not known yet" : count(step.items)}</td>
                    <td>
                      {step.reason}
                      {step.confirm ? <strong> Needs to be confirmed.</strong> : null}
                      {step.blocked ? <strong className="danger-text"> {step.blocked}</strong> : null}
                    </td>
                  </tr>
                );
              }),
            )}
          </tbody>
        </table>
      </div>
    </div>
  );
}

export function groupsOf(steps: readonly Step[]): readonly (readonly [string, readonly Step[]])[] {
  const actions = [...ORDER, ...new Set(steps.map((step) => step.action).filter((action) => !ORDER.includes(action)))];
  return actions
    .map((action) => [action, steps.filter((step) => step.action === action)] as const)
    .filter(([, found]) => found.length > 0);
}

/** The plan in one sentence: first what survives. */
export function summaryOf(plan: Pick<Plan, "steps" | "tasks" | "unknown" | "evaluates_result">): string {
  const sum = (...actions: string[]) =>
    plan.steps.filter((step) => actions.includes(step.action)).reduce((total, step) => total + (step.items ?? 0), 0);
  const parts = [
    [sum("keep"), "stays", "stay"],
    [sum("rerun", "new"), "runs", "run"],
    [sum("stale"), "is stale", "are stale"],
    [sum("skip"), "is skipped", "are skipped"],
    [sum("undo"), "is undone", "are undone"],
  ] as const;
  const words = parts.filter(([number]) => number > 0).map(([number, one, many]) => `${counted(number, "task")} ${number === 1 ? one : many}`);
  const unknown = plan.unknown > 0 ? [`${counted(plan.unknown, "node")} whose tasks are not known yet`] : [];
  if (plan.evaluates_result) return "Nothing runs again; the result of the workflow is evaluated again.";
  return words.length + unknown.length === 0 ? "No task changes." : `${[...words, ...unknown].join(", ")}.`;
}

export function isBlocked(plan: Plan): boolean {
  return plan.steps.some((step) => Boolean(step.blocked));
}

export function needsConfirmation(plan: Plan): boolean {
  return plan.steps.some((step) => step.confirm);
}

export function hasStale(plan: Plan): boolean {
  return plan.steps.some((step) => step.action === "stale");
}
