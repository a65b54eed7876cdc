/** What a part of a page shows while it has nothing to show: it loads, it is empty, or it failed. */

import type { ReactNode } from "react";

import { problemFrom } from "../api/client";
import { Command } from "./command";

/** Keeps the place of what comes, so that nothing jumps. */
export function Loading({ rows = 3 }: { readonly rows?: number }) {
  return (
    <div className="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="loading-row" />
      ))}
    </div>
  );
}

/** Says why there is nothing, and which command comes next. */
export function Empty({ title, children, command }: { readonly title: string; readonly children?: ReactNode; readonly command?: string }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children ? <p>{children}</p> : null}
      {command ? <Command text={command} /> : null}
    </div>
  );
}

/** Says what happened and what to do. */
export function Failed({ error, again }: { readonly error: unknown; readonly again?: () => void }) {
  const problem = problemFrom(error);
  return (
    <div className="problem" role="alert">
      <p>
        <strong>{problem.title}.</strong> {problem.detail}
      </p>
      {problem.errors && problem.errors.length > 0 ? (
        <ul>
          {problem.errors.map((one, index) => (
            <li key={index}>{placed(one)}</li>
          ))}
        </ul>
      ) : null}
      {problem.remedy ? <p className="quiet">{problem.remedy}</p> : null}
      {problem.request_id ? <p className="quiet small">Request {problem.request_id}</p> : null}
      {again ? (
        <button type="button" className="button" onClick={again}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

/** One mistake of an input with its place. */
function placed(one: Readonly<Record<string, unknown>>): string {
  const { line, column, path, message, suggestion } = one;
  const place = typeof line === "number" ? `line ${line}${typeof column === "number" ? `, column ${column}` : ""}` : path;
  const text = `${place ? `${String(place)}: ` : ""}${String(message ?? "")}`;
  return suggestion ? `${text} Did you mean ${String(suggestion)}?` : text;
}

interface Reading<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly refetch: () => unknown;
}

/** Shows an answer once it is there. An answer that is there stays while a newer one is read, or cannot be read. */
export function Shown<T>({ of, rows, children }: { readonly of: Reading<T>; readonly rows?: number; readonly children: (data: T) => ReactNode }) {
  if (of.data !== undefined) return <>{children(of.data)}</>;
  if (of.error) return <Failed error={of.error} again={() => void of.refetch()} />;
  return <Loading rows={rows} />;
}
