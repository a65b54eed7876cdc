import { expect, test } from "vitest";

import { inputsOf, kindOf, shownAs } from "./input_form";

const schema = {
  properties: {
    region: { type: "string", pattern: "^[A-Z]{3}$" },
    batch: { type: "integer", default: 100 },
    mode: { enum: ["fast", 2] },
    tiles: { type: "array" },
    dry: { type: ["boolean", "null"] },
  },
  required: ["region"],
};

test("each input has a field of its kind", () => {
  expect(Object.values(schema.properties).map(kindOf)).toEqual(["text", "number", "choice", "json", "boolean"]);
});

test("an empty field is left out, so that its default holds", () => {
  expect(inputsOf(schema, { region: "CIV" })).toEqual({ inputs: { region: "CIV" } });
});

test("a text that looks like a number stays a text where a text is wanted", () => {
  expect(inputsOf(schema, { region: "007", batch: "7", mode: "2", tiles: "[1]", dry: "true" })).toEqual({
    inputs: { region: "007", batch: 7, mode: 2, tiles: [1], dry: true },
  });
});

test("all that is wrong is named at once, at its field", () => {
  expect(inputsOf(schema, { batch: "many", tiles: "[" })).toEqual({
    problems: { region: "This input is required.", batch: "This is not a number.", tiles: "This is not JSON." },
  });
});

test("a value is shown as it would be typed", () => {
  expect([shownAs("text", "x"), shownAs("number", 7), shownAs("json", { a: 1 }), shownAs("json", null)]).toEqual(["x", "7", '{"a":1}', ""]);
});
