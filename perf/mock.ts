// Entry of the mock model server's process. It reports its port and ends with the harness.
import { startMockModel } from "../test/support/mock-model.ts";

process.on("disconnect", () => process.exit());
const server = await startMockModel({ record: false });
process.send?.({ result: server.port });
