/** The frame of all pages: where one can go, a search, who is signed in, and whether the page is up to date. */

import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";

import { chooseTenant, chosenTenant, client, ROOT } from "./api/client";
import { queries, read, useRead } from "./api/hooks";
import { useLiveJobs, useLiveState, type LiveState } from "./api/live";
import { isInstallationAdmin, useSession } from "./api/session";
import { Dialog } from "./components/dialog";
import { Chord, useKeys } from "./keys";
import { chosenTheme, nextTheme } from "./theme";

interface Place {
  readonly path: string;
  readonly label: string;
  readonly key: string;
  readonly scope?: "operate" | "admin";
}

const PLACES: readonly (readonly [string, readonly Place[]])[] = [
  [
    "Work",
    [
      { path: "/", label: "Overview", key: "o" },
      { path: "/jobs", label: "Jobs", key: "j" },
      { path: "/workflows", label: "Workflows", key: "w" },
      { path: "/schedules", label: "Schedules", key: "s" },
    ],
  ],
  [
    "Machinery",
    [
      { path: "/queues", label: "Workers and queues", key: "q" },
      { path: "/gates", label: "Breakers and limits", key: "b" },
      { path: "/janitor", label: "Janitor", key: "n" },
    ],
  ],
  [
    "Messages",
    [
      { path: "/deliveries", label: "Deliveries", key: "d" },
      { path: "/webhooks", label: "Webhooks", key: "h" },
    ],
  ],
  [
    "Administration",
    [
      { path: "/audit", label: "Audit", key: "a" },
      { path: "/keys", label: "Keys and tenants", key: "k", scope: "admin" },
      { path: "/installation", label: "Installation", key: "i" },
    ],
  ],
];

const LIVE_WORDS: Readonly<Record<LiveState, readonly [string, string]>> = {
  live: ["completed", "live"],
  connecting: ["waiting", "connecting"],
  cut: ["partial", "cut off, trying again"],
  ended: ["failed", "signed out"],
};

export function Shell({ children }: { readonly children: ReactNode }) {
  const session = useSession();
  const [location, navigate] = useLocation();
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const groups = PLACES.map(([title, places]) => [
    title,
    places.filter((place) => place.scope === undefined || session.scopes.includes(place.scope)),
  ] as const).filter(([, places]) => places.length > 0);
  useLiveJobs();
  useGoKeys(navigate);
  useKeys({ "/": () => search.current?.focus(), "?": () => setHelpOpen(true) });
  useEffect(() => {
    const label = groups.flatMap(([, places]) => places).find((place) => isHere(place.path, location))?.label;
    document.title = label === undefined ? "Holdfast" : `${label} · Holdfast`;
  });

  return (
    <div className="frame">
      <header className="topbar">
        <button
          type="button"
          className="button menu-button"
          aria-expanded={isMenuOpen}
          aria-label="Pages"
          onClick={() => setMenuOpen(!isMenuOpen)}
        >
          ☰
        </button>
        <Link href="/" className="brand">
          <img src={`${ROOT}/icon.svg`} alt="" /> <span className="wide-only">Holdfast</span>
        </Link>
        <Search input={search} />
        <span className="grow" />
        <Live />
        <Person onHelp={() => setHelpOpen(true)} />
      </header>
      <nav className={isMenuOpen ? "nav open" : "nav"} aria-label="Pages" onClick={() => setMenuOpen(false)}>
        {groups.map(([title, places]) => (
          <div key={title}>
            <h2>{title}</h2>
            {places.map((place) => (
              <Link key={place.path} href={place.path} aria-current={isHere(place.path, location) ? "page" : undefined}>
                {place.label}
              </Link>
            ))}
          </div>
        ))}
      </nav>
      <main className="main" id="main">
        {children}
      </main>
      {isHelpOpen ? <Help onClose={() => setHelpOpen(false)} /> : null}
    </div>
  );
}

function isHere(path: string, location: string): boolean {
  return path === "/" ? location === "/" : location === path || location.startsWith(`${path}/`);
}

function useGoKeys(navigate: (path: string) => void): void {
  const chord = useMemo(
    () =>
      new Chord(Object.fromEntries(PLACES.flatMap(([, places]) => places.map((place) => [place.key, () => navigate(place.path)])))),
    [navigate],
  );
  useEffect(() => {
    function press(event: KeyboardEvent): void {
      const target = event.target;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return;
      if (target instanceof HTMLElement && ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName)) return;
      if (chord.press(event.key)) event.stopImmediatePropagation();
    }
    // Before the keys of the page: the second key of two is not a key of its own.
    document.addEventListener("keydown", press, { capture: true });
    return () => document.removeEventListener("keydown", press, { capture: true });
  }, [chord]);
}

function Search({ input }: { readonly input: React.RefObject<HTMLInputElement | null> }) {
  const [, navigate] = useLocation();
  const [text, setText] = useState("");
  async function go(): Promise<void> {
    const wanted = text.trim();
    if (wanted === "") return;
    // One job is opened at once; several are listed.
    const page = await read("/api/v1/jobs", { query: { text: wanted, limit: 2 } }).catch(() => null);
    const only = page?.items.length === 1 ? page.items[0] : undefined;
    navigate(only === undefined ? `/jobs?text=${encodeURIComponent(wanted)}` : `/jobs/${only.job_id}`);
    setText("");
    input.current?.blur();
  }
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        void go();
      }}
    >
      <input
        ref={input}
        type="search"
        value={text}
        onChange={(event) => setText(event.target.value)}
        placeholder="Find a job  ( / )"
        aria-label="Find a job by id, key, workflow or correlation id"
      />
    </form>
  );
}

function Live() {
  const state = useLiveState();
  const [tone, words] = LIVE_WORDS[state];
  return (
    <span className={`live tone-${tone}`} role="status" title={`The page is ${words}.`}>
      <span className="live-dot" aria-hidden="true" /> <span className={state === "live" ? "wide-only" : ""}>{words}</span>
    </span>
  );
}

function Person({ onHelp }: { readonly onHelp: () => void }) {
  const session = useSession();
  const [theme, setTheme] = useState(chosenTheme);
  async function signOut(): Promise<void> {
    await client.DELETE("/api/v1/session").catch(() => null);
    chooseTenant(null);
    window.location.assign(`${ROOT}/`);
  }
  return (
    <span className="row">
      {isInstallationAdmin(session) ? <TenantChoice /> : <span className="quiet wide-only">{session.tenant}</span>}
      <span className="wide-only" title={`Roles: ${session.roles.join(", ")}`}>
        {session.name}
      </span>
      <button type="button" className="plain" onClick={() => setTheme(nextTheme())} aria-label={`Colours: ${theme}`} title={`Colours: ${theme}`}>
        {theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}
      </button>
      <button type="button" className="plain" onClick={onHelp} aria-label="Keys of this page" title="Keys of this page">
        ?
      </button>
      <button type="button" className="plain" onClick={() => void signOut()}>
        Sign out
      </button>
    </span>
  );
}

function TenantChoice() {
  const tenants = useRead("/api/v1/tenants", {});
  const current = chosenTenant() ?? "default";
  const names = [...new Set(["default", current, ...(tenants.data?.items.map((tenant) => tenant.name) ?? [])])];
  return (
    <select
      aria-label="Tenant"
      value={current}
      onChange={(event) => {
        chooseTenant(event.target.value === "default" ? null : event.target.value);
        void queries.resetQueries();
      }}
    >
      {names.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}

function Help({ onClose }: { readonly onClose: () => void }) {
  const keys: readonly (readonly [string, string])[] = [
    ["/", "find a job"],
    ["j  k", "next row, row before"],
    ["Enter", "open the row"],
    ["x", "choose the row"],
    ["Esc", "close a dialog"],
    ["?", "this list"],
    ...PLACES.flatMap(([, places]) => places.map((place) => [`g ${place.key}`, `go to ${place.label}`] as const)),
  ];
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="facts">
        {keys.map(([key, meaning]) => (
          <div key={key} style={{ display: "contents" }}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
