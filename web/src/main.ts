import { mount } from "svelte";
import "./page.css";
import { app } from "./state/app.svelte";
import "./state/feed.svelte";
import { rememberPlace } from "./state/place";
import { exposeTestHooks } from "./state/hooks";
import { openReport, report } from "./server/report";
import { rights } from "./state/rights.svelte";
import { readHash } from "./view/hash";
import Shell from "./shell/Shell.svelte";
import { VIEWS } from "./shell/views";

function start(): void {
  if (report && !location.hash) {
    history.replaceState(null, "", `#/${report.opens}`);
    app.view = readHash(location.hash);
  }
  // The first question leaves before anything is drawn.
  app.start();
  // What the page is drawn by is on its way while the shell is made; where that fails, the shell asks again.
  VIEWS[app.view.page].load().catch(() => undefined);
  void rights.look();
  exposeTestHooks();
  // In a task of its own: reading the sources was one already, and what is typed meanwhile waits for both.
  setTimeout(() => mount(Shell, { target: document.getElementById("app")! }));
}

rememberPlace(location.pathname);
void openReport().then(start);
