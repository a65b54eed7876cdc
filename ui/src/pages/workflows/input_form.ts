/** What a person types into the form of a workflow's inputs, and what it means. */

export interface InputSchema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly description?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

export interface InputsSchema {
  readonly properties?: Readonly<Record<string, InputSchema>>;
  readonly required?: readonly string[];
}

export type Kind = "text" | "number" | "boolean" | "choice" | "json";

export function kindOf(schema: InputSchema): Kind {
  if (schema.enum !== undefined) return "choice";
  const types = typeof schema.type === "string" ? [schema.type] : (schema.type ?? []);
  const [only] = types.filter((type) => type !== "null");
  if (only === "string") return "text";
  if (only === "integer" || only === "number") return "number";
  return only === "boolean" ? "boolean" : "json";
}

/** What a field shows for a value. */
export function shownAs(kind: Kind, value: unknown): string {
  if (value === undefined || value === null) return "";
  return kind === "text" ? String(value) : JSON.stringify(value);
}

export type Read = { readonly inputs: Readonly<Record<string, unknown>> } | { readonly problems: Readonly<Record<string, string>> };

/** The inputs that the fields mean; an empty field is left out, so that its default holds. */
export function inputsOf(schema: InputsSchema, fields: Readonly<Record<string, string>>): Read {
  const inputs: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const [name, one] of Object.entries(schema.properties ?? {})) {
    const typed = fields[name] ?? "";
    if (typed.trim() === "") {
      if (schema.required?.includes(name)) problems[name] = "This input is required.";
      continue;
    }
    if (kindOf(one) === "text") {
      inputs[name] = typed;
      continue;
    }
    try {
      inputs[name] = JSON.parse(typed) as unknown;
    } catch {
      problems[name] = kindOf(one) === "number" ? "This is not a number." : "This is not JSON.";
    }
  }
  return Object.keys(problems).length > 0 ? { problems } : { inputs };
}
