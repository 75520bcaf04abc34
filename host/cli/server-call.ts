import { Egress, type ResponseHandler } from "../../governance/egress/egress.ts";
import { egressFailure } from "../../governance/egress/failure.ts";
import { readTarget } from "../../governance/egress/target.ts";

/** What a server has answered. */
export interface ServerAnswer {
  readonly status: number;
  readonly body: string;
}

/** Longer than any request of a command takes that a server answers. */
const silenceMs = 120_000;

/** Sends a POST without a body to a running server. Rejects, in words, when there is no answer. */
export async function postToServer(url: string, key: string | undefined): Promise<ServerAnswer> {
  const egress = new Egress("operator");
  try {
    return await new Promise((resolve, reject) => {
      let status = 0;
      const pieces: Buffer[] = [];
      const handler: ResponseHandler = {
        onRequestStart: () => {},
        onResponseStart: (_controller, code) => {
          status = code;
        },
        onResponseData: (_controller, piece) => void pieces.push(piece),
        onResponseEnd: () => resolve({ status, body: Buffer.concat(pieces).toString("utf8") }),
        onResponseError: (_controller, error) => reject(noAnswer(url, error)),
      };
      const headers = key === undefined || key === "" ? [] : ["authorization", `Bearer ${key}`];
      egress.dispatch(readTarget(url), { method: "POST", headers, body: null, silenceMs }, handler);
    });
  } finally {
    await egress.close();
  }
}

function noAnswer(url: string, error: unknown): Error {
  return new Error(`no answer from ${new URL(url).origin} (${egressFailure(error)}): is svc running there?`);
}
