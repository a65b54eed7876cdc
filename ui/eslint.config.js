import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["src/api/schema.ts", "node_modules"] },
  ...tseslint.configs.strict,
  hooks.configs.flat.recommended,
  {
    rules: {
      "no-console": "error",
      "@typescript-eslint/no-non-null-assertion": "error",
      "no-restricted-syntax": [
        "error",
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: "Everything from outside stays text.",
        },
      ],
    },
  },
);
