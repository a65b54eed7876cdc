import { describe, expect, test } from "vitest";

import { bytes, count, counted, duration, percent } from "./numbers";
import { hasEnded, lookOf, STATUSES } from "./status";
import { relative, span } from "./times";

describe("numbers", () => {
  test("a count has separators and its noun agrees", () => {
    expect(count(1924)).toBe("1,924");
    expect(counted(1, "item")).toBe("1 item");
    expect(counted(2, "entry", "entries")).toBe("2 entries");
  });
  test("a duration has at most two units", () => {
    expect([0.35, 4.21, 185, 7620, 273_600].map(duration)).toEqual([
      "350 ms",
      "4.2 s",
      "3 min 05 s",
      "2 h 07 min",
      "3 d 4 h",
    ]);
  });
  test("a size uses the largest unit that fits", () => {
    expect([12, 65_536, 5_400_000].map(bytes)).toEqual(["12 bytes", "65.5 kB", "5.4 MB"]);
  });
  test("a share is a percentage", () => expect(percent(0.0305)).toBe("3.1 %"));
});

describe("times", () => {
  const now = Date.parse("2026-11-19T12:00:00Z");
  test("the past and the future are told apart", () => {
    expect(relative("2026-11-19T11:59:58Z", now)).toBe("just now");
    expect(relative("2026-11-19T11:58:00Z", now)).toBe("2 min ago");
    expect(relative("2026-11-19T15:00:00Z", now)).toBe("in 3 h");
  });
  test("something that runs lasts until now", () => {
    expect(span("2026-11-19T11:59:30Z", null, now)).toBe("30 s");
    expect(span(null, null, now)).toBeNull();
  });
});

describe("statuses", () => {
  test("each status has a sign of its own within its tone", () => {
    const looks = STATUSES.map((status) => `${lookOf(status).tone} ${lookOf(status).sign}`);
    expect(new Set(looks).size).toBeGreaterThanOrEqual(STATUSES.length - 1);
  });
  test("an unknown status is shown as one that waits", () => expect(lookOf("later").tone).toBe("waiting"));
  test("only what cannot move any more has ended", () => {
    expect(STATUSES.filter((status) => !hasEnded(status))).toEqual(["pending", "ready", "dispatched", "running"]);
  });
});
