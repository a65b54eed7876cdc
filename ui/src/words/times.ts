/** Moments: relative to now in a list, absolute where it matters. */

import { duration } from "./numbers";

const absoluteFormat = new Intl.DateTimeFormat("en-GB", {
  dateStyle: "medium",
  timeStyle: "medium",
});
const clockFormat = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

export function absolute(moment: string): string {
  return absoluteFormat.format(new Date(moment));
}

export function clock(moment: string): string {
  return clockFormat.format(new Date(moment));
}

/** `just now`, `12 s ago`, `in 3 min`: coarse, so that a list does not flicker. */
export function relative(moment: string, now: number): string {
  const seconds = (now - Date.parse(moment)) / 1000;
  const size = Math.abs(seconds);
  if (size < 5) return seconds < 0 ? "now" : "just now";
  const words = coarse(size);
  return seconds < 0 ? `in ${words}` : `${words} ago`;
}

function coarse(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** How long something took, or takes so far. */
export function span(from: string | null | undefined, to: string | null | undefined, now: number): string | null {
  if (!from) return null;
  const end = to ? Date.parse(to) : now;
  return duration(Math.max(0, end - Date.parse(from)) / 1000);
}
