/// <reference types="vitest/config" />
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Writes each text file of the bundle a second and a third time, compressed: the service sends what a browser takes. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    enforce: "post",
    generateBundle: {
      // After Vite's own step, which still changes the code of chunks that load others.
      order: "post",
      handler(_options, bundle) {
        for (const [name, file] of Object.entries(bundle)) {
          if (!/\.(js|css|svg)$/.test(name)) continue;
          const content = Buffer.from(file.type === "chunk" ? file.code : file.source);
          if (content.length < 1024) continue;
          const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };
          this.emitFile({ type: "asset", fileName: `${name}.br`, source: brotliCompressSync(content, quality) });
          this.emitFile({ type: "asset", fileName: `${name}.gz`, source: gzipSync(content, { level: 9 }) });
        }
      },
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [react(), compressed()],
  build: {
    outDir: "../src/holdfast/_ui",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/sign-in", "/openapi.json"].map((path) => [path, { target: "http://127.0.0.1:8321", changeOrigin: true }]),
    ),
  },
  test: { environment: "node", include: ["src/**/*.test.ts", "src/**/*.test.tsx"] },
});
