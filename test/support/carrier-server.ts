import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Cleanup } from "./temp.ts";

/** A stand-in for a carrier that is asked for the rates of a parcel. */
export interface CarrierServer {
  readonly url: string;
  /** The bodies of the requests. */
  readonly asked: string[];
  /** The cents of its only rate `live`; null if it fails. */
  cents: number | null;
}

/** Starts a carrier that fails until it has a rate. */
export async function startCarrier(atEnd: Cleanup): Promise<CarrierServer> {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    asked.push(Buffer.concat(await request.toArray()).toString("utf8"));
    const { cents } = carrier;
    const rates = [{ id: "live", carrier: "Post", title: "Live", amount_cents: cents, min_days: 1, max_days: 2 }];
    response.writeHead(cents === null ? 500 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify({ rates }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  const carrier: CarrierServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    cents: null,
  };
  return carrier;
}
