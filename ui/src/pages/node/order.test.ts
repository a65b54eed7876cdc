import { expect, test } from "vitest";

import { only, orderOf, stripOf, type Runs } from "./order";

const runs: Runs = [
  ["completed", 2],
  ["failed", 1],
  ["completed", 3],
  ["failed", 2],
];

test("failed items come first, each group by index", () => {
  expect([...orderOf(runs, "failed").rows]).toEqual([2, 6, 7, 0, 1, 3, 4, 5]);
});

test("without a status that comes first, items stand by index", () => {
  expect([...orderOf(runs, null).rows]).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
});

test("only one status is shown if that is asked", () => expect([...only(runs, "failed").rows]).toEqual([2, 6, 7]));

test("one failed item of a hundred thousand is seen in a strip", () => {
  const wide: Runs = [["completed", 57_000], ["failed", 1], ["completed", 42_999]];
  const strip = stripOf(wide, 500);
  expect(strip).toHaveLength(500);
  expect(strip.filter((status) => status === "failed")).toHaveLength(1);
  expect(strip[285]).toBe("failed");
});

test("few items have a place each", () => expect(stripOf(runs, 500)).toEqual(["completed", "completed", "failed", "completed", "completed", "completed", "failed", "failed"]));
