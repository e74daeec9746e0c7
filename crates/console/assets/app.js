// The entry of every page.
import { useKeys } from "./keys.js";
import { useThemeSwitch } from "./theme.js";
import { showLocalTimes } from "./times.js";

showLocalTimes(document);
useThemeSwitch();
useKeys();
