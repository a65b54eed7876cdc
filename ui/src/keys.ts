/** Keys of the whole page. They rest while somebody types, or while a dialog is open. */

import { useEffect, useRef } from "react";

type Bindings = Readonly<Record<string, () => void>>;

export function useKeys(bindings: Bindings): void {
  const current = useRef(bindings);
  useEffect(() => {
    current.current = bindings;
  });
  useEffect(() => {
    function press(event: KeyboardEvent): void {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key !== "Escape" && document.querySelector("dialog[open]") !== null) return;
      // Enter belongs to the control that has the focus.
      if (event.key === "Enter" && event.target instanceof Element && event.target.closest("a, button, summary") !== null) return;
      const action = current.current[event.key];
      if (action === undefined) return;
      event.preventDefault();
      action();
    }
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

/** Two keys one after the other: `g j`. */
export class Chord {
  private first: string | null = null;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly targets: Readonly<Record<string, () => void>>;

  constructor(targets: Readonly<Record<string, () => void>>) {
    this.targets = targets;
  }

  press(key: string): boolean {
    if (this.first === "g") {
      this.forget();
      const go = this.targets[key];
      go?.();
      return go !== undefined;
    }
    if (key !== "g") return false;
    this.first = key;
    this.timer = setTimeout(() => this.forget(), 1_000);
    return true;
  }

  private forget(): void {
    this.first = null;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }
}
