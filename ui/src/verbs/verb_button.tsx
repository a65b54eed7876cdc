/**
 * A button that opens the plan of a verb. People who may not do it do not see it. The dialog belongs to the whole page:
 * a button may go as soon as the job has changed, and the dialog must say so.
 */

import { createContext, useContext, useState, type ReactNode } from "react";

import { useMay } from "../api/session";
import { PlanDialog } from "./plan_dialog";
import type { Wish } from "./send";

interface Props extends Wish {
  readonly children: ReactNode;
  readonly kind?: "main-action" | "danger";
  readonly title?: string;
}

export function VerbButton({ children, kind, title, ...wish }: Props) {
  const open = useContext(OpenPlan);
  const mayOperate = useMay("operate");
  if (!mayOperate) return null;
  return (
    <button type="button" className={`button ${kind ?? ""}`} title={title} onClick={() => open(wish)}>
      {children}
    </button>
  );
}

const OpenPlan = createContext<(wish: Wish) => void>(() => undefined);

/** Where the dialog of the plan stands that a person has asked for. */
export function Plans({ children }: { readonly children: ReactNode }) {
  const [wish, setWish] = useState<Wish | null>(null);
  return (
    <OpenPlan value={setWish}>
      {children}
      {wish === null ? null : <PlanDialog wish={wish} onClose={() => setWish(null)} />}
    </OpenPlan>
  );
}
