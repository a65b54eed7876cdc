/** The causes of `why`, in words. */

const WORDS: Readonly<Record<string, string>> = {
  waiting_for_nodes: "waits for other nodes",
  retry_scheduled: "will be tried again",
  breaker_open: "waits until a dependency answers again",
  limit_reached: "waits because a limit is reached",
  paused: "is paused",
  running: "runs",
  no_worker_for_queue: "waits: no worker serves its queue",
  no_worker_for_handler: "waits: no worker has its handler",
  no_orchestrator: "waits: no orchestrator is running",
  owner_gone: "waits: its orchestrator is gone; another one takes it over",
  needs_confirmation: "waits for a confirmation",
};

export function reasonWords(cause: string, details: Readonly<Record<string, unknown>>): string {
  const words = WORDS[cause] ?? cause.replaceAll("_", " ");
  const facts = Object.entries(details)
    .filter(([, value]) => value !== null && typeof value !== "object")
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value)}`);
  const lists = Object.entries(details)
    .filter(([, value]) => Array.isArray(value) && value.every((one) => typeof one !== "object"))
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${(value as readonly unknown[]).join(", ")}`);
  const all = [...facts, ...lists];
  return all.length === 0 ? words : `${words} (${all.join("; ")})`;
}
