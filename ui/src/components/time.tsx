/** Moments and durations that stay right while the page is open. */

import { useSyncExternalStore } from "react";

import { absolute, relative, span } from "../words/times";

const TICK_MS = 1_000;
let now = Date.now();
const watchers = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | null = null;

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const one of watchers) one();
  }, TICK_MS);
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0 && timer !== null) {
      clearInterval(timer);
      timer = null;
    }
  };
}

/** The time of this browser, to the second. All parts of the page share one clock. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}

export function When({ at }: { readonly at: string | null | undefined }) {
  const time = useNow();
  if (!at) return <span className="quiet">–</span>;
  return (
    <time dateTime={at} title={absolute(at)}>
      {relative(at, time)}
    </time>
  );
}

export function Lasting({ from, to }: { readonly from: string | null | undefined; readonly to: string | null | undefined }) {
  const time = useNow();
  const text = span(from, to, time);
  if (text === null || !from) return <span className="quiet">–</span>;
  return <span title={`${absolute(from)} – ${to ? absolute(to) : "now"}`}>{text}</span>;
}
