import { expect, test } from "vitest";

import { groupsOf, summaryOf } from "./plan_view";

const step = (action: string, items: number | null) => ({ node: "n", action, items, reason: "", confirm: false, blocked: null });

test("a plan says first what stays, then what runs", () => {
  const plan = { steps: [step("rerun", 2), step("keep", 1922)], tasks: 2, unknown: 0, evaluates_result: false };
  expect(summaryOf(plan)).toBe("1,922 tasks stay, 2 tasks run.");
  expect(groupsOf(plan.steps).map(([action]) => action)).toEqual(["keep", "rerun"]);
});

test("a plan says what it cannot know yet", () => {
  const plan = { steps: [step("rerun", null)], tasks: 0, unknown: 1, evaluates_result: false };
  expect(summaryOf(plan)).toBe("1 node whose tasks are not known yet.");
});

test("an action of a newer service is shown, too", () => {
  expect(groupsOf([step("other", 1)]).map(([action]) => action)).toEqual(["other"]);
});
