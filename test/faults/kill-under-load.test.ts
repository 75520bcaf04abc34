import { test } from "node:test";
import { dialects } from "../support/stores.ts";
import { killUnderLoad } from "./load.ts";
import { skipPostgres } from "./support.ts";

for (const dialect of dialects) {
  test(
    `a server on ${dialect} killed ten times under load loses nothing acknowledged`,
    {
      skip: dialect === "postgres" && skipPostgres,
    },
    (t) => killUnderLoad(t, dialect, 10),
  );
}
