// Writes every generated file: `npm run generate`.
import { writeFileSync } from "node:fs";
import { generatedFiles } from "./pages/pages.ts";

for (const { file, text } of generatedFiles) writeFileSync(file, text());
