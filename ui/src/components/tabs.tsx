/** Parts of a page, one at a time. The choice stands in the address, so that the back button works. */

import { Link } from "wouter";

interface Tab {
  readonly name: string;
  readonly label: string;
}

export function Tabs({ tabs, current, base }: { readonly tabs: readonly Tab[]; readonly current: string; readonly base: string }) {
  return (
    <nav className="tabs" aria-label="Parts of this page">
      {tabs.map((tab) => (
        <Link
          key={tab.name}
          href={tab.name === tabs[0]?.name ? base : `${base}/${tab.name}`}
          className="tab"
          aria-current={tab.name === current ? "page" : undefined}
        >
          {tab.label}
        </Link>
      ))}
    </nav>
  );
}
