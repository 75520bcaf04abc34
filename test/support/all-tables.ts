import { globSync } from "node:fs";

// Declares the statements of every module of storage/tables, for the tests that hold each statement against both engines.

const folder = new URL("../../storage/tables/", import.meta.url);
for (const file of globSync("*.ts", { cwd: folder }).sort()) await import(new URL(file, folder).href);
