/** Who looks at the page, and what they may do. */

import { createContext, useContext } from "react";

import { ROOT, type Schemas } from "./client";

export type Session = Schemas["Session"];
export type Scope = "read" | "submit" | "operate" | "admin" | "work";

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("This part of the page is only shown to people who are signed in.");
  return session;
}

/** Whether to show what needs a scope. The service decides again. */
export function useMay(scope: Scope): boolean {
  return useSession().scopes.includes(scope);
}

export function isInstallationAdmin(session: Session): boolean {
  return session.tenant === "*" && session.scopes.includes("admin");
}

/** The page on which a browser signs in, and comes back to where it was. */
export function signInAddress(): string {
  const here = window.location.pathname.slice(ROOT.length) + window.location.search;
  return `${ROOT}/sign-in?return_to=${encodeURIComponent(here)}`;
}
