/** JSON that a person types. */

type Parsed = { readonly isValid: true; readonly value: unknown } | { readonly isValid: false; readonly problem: string };

export function parsedJson(text: string): Parsed {
  try {
    return { isValid: true, value: JSON.parse(text) as unknown };
  } catch (error) {
    return { isValid: false, problem: `This is not JSON yet: ${error instanceof Error ? error.message : String(error)}` };
  }
}
