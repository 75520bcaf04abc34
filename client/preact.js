import { useEffect, useMemo, useState } from "preact/hooks";
import { threadHook } from "./use-thread.js";

/** Follows a thread in a Preact component. */
export const useThread = threadHook({ useState, useEffect, useMemo });
