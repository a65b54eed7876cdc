import { expect, test } from "vitest";

import { diffOf } from "./diff";

test("equal texts do not differ", () => expect(diffOf("a\nb", "a\nb")).toEqual([]));

test("a changed line is shown with the lines around it", () => {
  expect(diffOf("a\nb\nc", "a\nx\nc")).toEqual(["  a", "- b", "+ x", "  c"]);
});

test("what is far from a change is left out", () => {
  const long = Array.from({ length: 20 }, (_, index) => `line ${index}`);
  const changed = long.with(19, "other");
  expect(diffOf(long.join("\n"), changed.join("\n"))).toEqual(["…", "  line 16", "  line 17", "  line 18", "- line 19", "+ other"]);
});
