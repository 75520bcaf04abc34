// Writes docs/settings.md from the declarations of the settings. Part of `npm run generate`.
import { writeFileSync } from "node:fs";
import { settingsDocument } from "../governance/settings/document.ts";

writeFileSync(new URL("./settings.md", import.meta.url), settingsDocument());
