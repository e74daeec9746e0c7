// @ts-check
// Requests what a page shows first, while the scripts that draw it are being loaded.

import { leaders } from "./leaders.js";
import { parametersOf, parametersOfTable } from "./selection.js";
import { request } from "./views.js";

const explore = document.getElementById("explore");
if (explore) {
  const study = explore.dataset.study ?? "";
  const first = document.querySelector("figure[data-plot]");
  if (first instanceof HTMLElement) request(study, first.dataset.view ?? "", parametersOf(first.dataset.plot ?? ""));
  request(study, "table", parametersOfTable(JSON.parse(explore.dataset.space ?? "{}"), 0));
}

const picture = document.getElementById("picture");
if (picture && Number(document.getElementById("drawable")?.dataset.results) > 0) {
  const { study = "", metric = "", direction = "" } = picture.dataset;
  request(study, "history", { metric });
  request(study, "table", leaders(metric, direction));
}
