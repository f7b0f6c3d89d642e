// Shows the newest picture of a chart. An SVG in an image runs no script, whatever its texts are.
export default {
  render({ model, el }) {
    const picture = document.createElement("img");
    picture.style.maxWidth = "100%";
    const draw = () => {
      picture.alt = model.get("title");
      picture.src = "data:image/svg+xml," + encodeURIComponent(model.get("svg"));
    };
    model.on("change:svg", draw);
    draw();
    el.append(picture);
    return () => model.off("change:svg", draw);
  },
};
