import { test } from "node:test";
import { killUnderLoad } from "../faults/load.ts";
import { skipPostgres } from "../faults/support.ts";
import { dialects } from "../support/stores.ts";

for (const dialect of dialects) {
  test(
    `a server on ${dialect} killed fifty times under load loses nothing acknowledged`,
    {
      skip: dialect === "postgres" && skipPostgres,
    },
    (t) => killUnderLoad(t, dialect, 50),
  );
}
