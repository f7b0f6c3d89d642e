import { mount } from "svelte";
import "./page.css";
import { app } from "./state/app.svelte";
import "./state/feed.svelte";
import { exposeTestHooks } from "./state/hooks";
import Shell from "./shell/Shell.svelte";

// The first question leaves before anything is drawn.
app.start();
exposeTestHooks();
mount(Shell, { target: document.getElementById("app")! });
