/** Requests to the service: typed by its OpenAPI document; errors are the service's problem objects. */

import createClient, { type Middleware } from "openapi-fetch";

import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

/** The path below which the service is seen: empty, or that of a proxy. */
export const ROOT = new URL(".", document.baseURI).pathname.replace(/\/$/, "");

/** A request that was refused or did not arrive, in words for people. */
export class RequestFailed extends Error {
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.detail);
    this.problem = problem;
  }
}

const TENANT_KEY = "holdfast.tenant";

/** The tenant that an administrator of the installation looks at; null: that of the credential. */
export function chosenTenant(): string | null {
  return sessionStorage.getItem(TENANT_KEY);
}

export function chooseTenant(name: string | null): void {
  if (name === null) sessionStorage.removeItem(TENANT_KEY);
  else sessionStorage.setItem(TENANT_KEY, name);
}

const ask: Middleware = {
  onRequest({ request }) {
    const tenant = chosenTenant();
    const url = new URL(request.url);
    // Who is signed in belongs to no tenant.
    if (tenant === null || url.searchParams.has("tenant") || url.pathname === `${ROOT}/api/v1/session`) return undefined;
    url.searchParams.set("tenant", tenant);
    return new Request(url, request);
  },
  async onResponse({ response }) {
    if (response.ok) return undefined;
    throw new RequestFailed(await problemOf(response));
  },
  onError() {
    return new RequestFailed(UNREACHABLE);
  },
};

export const client = createClient<paths>({ baseUrl: ROOT });
client.use(ask);

const UNREACHABLE: Problem = {
  type: "urn:holdfast:UNREACHABLE",
  title: "The service cannot be reached",
  status: 0,
  code: "UNREACHABLE",
  detail: "The service does not answer.",
  remedy: "This page tries again by itself. If it stays so: holdfast up, or holdfast api.",
};

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body: unknown = await response.clone().json();
    if (typeof body === "object" && body !== null && "detail" in body && "code" in body) return body as Problem;
  } catch {
    // A proxy has answered: its page is of no use here.
  }
  return {
    type: "urn:holdfast:UNEXPECTED",
    title: "An unexpected answer",
    status: response.status,
    code: "UNEXPECTED",
    detail: `The service, or a proxy before it, has answered with status ${response.status}.`,
    remedy: "Try again.",
  };
}

export function problemFrom(error: unknown): Problem {
  if (error instanceof RequestFailed) return error.problem;
  return { ...UNREACHABLE, detail: error instanceof Error ? error.message : String(error), code: "UNEXPECTED" };
}
