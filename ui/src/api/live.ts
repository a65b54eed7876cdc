/**
 * What happens now: streams of events tell which answers are out of date. An event is a reason to read again, never data
 * of its own, so a page cannot disagree with the service. Reads are batched: at most one a second for each address.
 */

import type { Query, QueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";

import { chosenTenant, ROOT } from "./client";
import { isShown, queries } from "./hooks";

const READ_AGAIN_MS = 1_000;
const RECONNECT_MS = 2_000;
const JOB_EVENTS = [
  "job_created",
  "job_started",
  "job_completed",
  "job_partial",
  "job_failed",
  "job_cancelled",
  "job_recovered",
  "job_held",
  "job_released",
  "breaker_opened",
  "breaker_closed",
];
const STREAM_MESSAGES = ["end", "reset", "behind", "restart", "revoked"] as const;
export type LiveState = "live" | "connecting" | "cut" | "ended";

/** Collects what is out of date and has it read again together. */
export class Refresher {
  private readonly dirty = new Set<string>();
  private isAllDirty = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private last = 0;
  private readonly client: Pick<QueryClient, "invalidateQueries">;

  constructor(client: Pick<QueryClient, "invalidateQueries">) {
    this.client = client;
  }

  /** An answer about this job, or a list in which it stands, is out of date. */
  job(id: string): void {
    this.dirty.add(id);
    this.plan();
  }

  all(): void {
    this.isAllDirty = true;
    this.plan();
  }

  private plan(): void {
    if (this.timer !== null) return;
    const wait = Math.max(0, this.last + READ_AGAIN_MS - Date.now());
    this.timer = setTimeout(() => {
      this.timer = null;
      this.last = Date.now();
      this.flush();
    }, wait);
  }

  private flush(): void {
    const jobs = new Set(this.dirty);
    const all = this.isAllDirty;
    this.dirty.clear();
    this.isAllDirty = false;
    void this.client.invalidateQueries({ predicate: (query) => (all && isShown(query)) || concerns(query, jobs) }, { cancelRefetch: false });
  }
}

/** Whether an answer is about one of the jobs, or is a list of jobs or an overview. */
export function concerns(query: Pick<Query, "queryKey">, jobs: ReadonlySet<string>): boolean {
  const [path, params] = query.queryKey as [string, { path?: { job_id?: string } } | undefined];
  const job = params?.path?.job_id;
  if (job !== undefined) return jobs.has(job);
  return LISTS.has(path);
}

const LISTS: ReadonlySet<string> = new Set([
  "/api/v1/jobs",
  "/api/v1/statistics",
  "/api/v1/attention",
  "/api/v1/queues",
  "/api/v1/breakers",
  "/api/v1/hours",
]);

export const refresher = new Refresher(queries);

let state: LiveState = "connecting";
const watchers = new Set<() => void>();

function setState(next: LiveState): void {
  if (next === state) return;
  state = next;
  for (const watch of watchers) watch();
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(
    (watch) => {
      watchers.add(watch);
      return () => watchers.delete(watch);
    },
    () => state,
  );
}

interface Followed {
  readonly address: string;
  readonly onEvent: (data: string) => void;
  readonly onMissed: () => void;
  readonly onState?: (state: LiveState) => void;
}

/**
 * Follows a stream while the page is visible. A hidden page gives its connection back: a browser has six for a host.
 * Returns how to end it.
 */
function follow({ address, onEvent, onMissed, onState }: Followed): () => void {
  let source: EventSource | null = null;
  let again: ReturnType<typeof setTimeout> | null = null;
  let place: string | null = null;
  let wasCut = false;
  let isOver = false;

  function open(): void {
    if (isOver || source !== null || document.hidden) return;
    const url = new URL(`${ROOT}${address}`, window.location.href);
    const tenant = chosenTenant();
    if (tenant !== null) url.searchParams.set("tenant", tenant);
    if (place !== null) url.searchParams.set("after", place);
    const opened = new EventSource(url);
    source = opened;
    opened.onopen = () => {
      onState?.("live");
      // Without a place the stream begins now: what happened in between was missed.
      if (wasCut && place === null) onMissed();
      wasCut = false;
    };
    opened.onmessage = (message: MessageEvent<string>) => {
      if (message.lastEventId) place = message.lastEventId;
      onEvent(message.data);
    };
    opened.onerror = () => {
      close();
      wasCut = true;
      onState?.("cut");
      again = setTimeout(open, RECONNECT_MS);
    };
    for (const name of STREAM_MESSAGES) {
      opened.addEventListener(name, (message: MessageEvent<string>) => {
        if (message.lastEventId) place = message.lastEventId;
        if (name === "reset") {
          onMissed();
          return;
        }
        close();
        onMissed();
        if (name === "end") return;
        if (name === "revoked") onState?.("ended");
        else again = setTimeout(open, RECONNECT_MS);
      });
    }
  }

  function close(): void {
    source?.close();
    source = null;
    if (again !== null) clearTimeout(again);
    again = null;
  }

  function seen(): void {
    if (document.hidden) {
      close();
      return;
    }
    onMissed();
    open();
  }

  document.addEventListener("visibilitychange", seen);
  open();
  return () => {
    isOver = true;
    close();
    document.removeEventListener("visibilitychange", seen);
  };
}

/** Keep everything that is shown up to date: one stream of the jobs of the tenant. */
export function useLiveJobs(): void {
  useEffect(() => {
    const names = JOB_EVENTS.map((name) => `event=${name}`).join("&");
    return follow({
      address: `/api/v1/events/stream?${names}`,
      onEvent: (data) => {
        const event: unknown = JSON.parse(data);
        if (typeof event === "object" && event !== null && "job_id" in event) refresher.job(String(event.job_id));
      },
      onMissed: () => refresher.all(),
      onState: setState,
    });
  }, []);
}

/** Keep one job up to date, event by event. `generation` opens the stream again after a recovery. */
export function useLiveJob(jobId: string, generation: number | undefined): void {
  useEffect(() => {
    if (generation === undefined) return undefined;
    return follow({
      address: `/api/v1/jobs/${jobId}/stream?after=now`,
      onEvent: () => refresher.job(jobId),
      onMissed: () => refresher.job(jobId),
    });
  }, [jobId, generation]);
}
