/** The query of the address as the state of a page: it can be sent to somebody, and the back button works. */

import { useCallback, useMemo } from "react";
import { useLocation, useSearch } from "wouter";

export interface AddressQuery {
  readonly get: (name: string) => string;
  readonly all: (name: string) => readonly string[];
  /** Change some names; an empty value removes its name. `isNew` makes an entry of the history. */
  readonly set: (changes: Readonly<Record<string, string | readonly string[]>>, isNew?: boolean) => void;
  readonly text: string;
}

export function useAddressQuery(): AddressQuery {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const query = useMemo(() => new URLSearchParams(search), [search]);
  const set = useCallback(
    (changes: Readonly<Record<string, string | readonly string[]>>, isNew = false) => {
      const next = new URLSearchParams(window.location.search);
      for (const [name, value] of Object.entries(changes)) {
        next.delete(name);
        for (const one of typeof value === "string" ? [value] : value) if (one !== "") next.append(name, one);
      }
      const text = next.toString();
      navigate(text === "" ? path : `${path}?${text}`, { replace: !isNew });
    },
    [navigate, path],
  );
  return useMemo(
    () => ({ get: (name) => query.get(name) ?? "", all: (name) => query.getAll(name), set, text: search }),
    [query, search, set],
  );
}
