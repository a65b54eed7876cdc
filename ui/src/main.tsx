/** Starts the page. */

import "./tokens.css";
import "./base.css";

import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";

import { ROOT } from "./api/client";
import { queries } from "./api/hooks";
import { App } from "./app";
import { applyTheme } from "./theme";

applyTheme();
const place = document.getElementById("root");
if (place !== null) {
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <Router base={ROOT}>
          <App />
        </Router>
      </QueryClientProvider>
    </StrictMode>,
  );
}
