const WORDS = 32; // pixels

/** A canvas in world units: x to the right, y upwards, and colours by the names that style.css gives them. */
export class Canvas {
  constructor(element) {
    this.element = element;
    this.context = element.getContext("2d");
    this.style = getComputedStyle(element); // follows the theme by itself
  }

  color(name) {
    return this.style.getPropertyValue(`--${name}`) || name;
  }

  /** Clear, and show the whole of a view [left, bottom, right, top] in the middle, between the words above and below. */
  begin([left, bottom, right, top]) {
    const { clientWidth: width, clientHeight: height } = this.element;
    const sharp = Math.min(window.devicePixelRatio || 1, 3);
    const [wide, high] = [Math.round(width * sharp), Math.round(height * sharp)];
    if (this.element.width !== wide || this.element.height !== high) [this.element.width, this.element.height] = [wide, high];
    this.scale = Math.min(width / (right - left), (height - 2 * WORDS) / (top - bottom));
    this.origin = [width / 2 - (this.scale * (left + right)) / 2, height / 2 + (this.scale * (bottom + top)) / 2];
    [this.left, this.top] = this.toWorld([0, 0]);
    [this.right, this.bottom] = this.toWorld([width, height]);
    this.context.setTransform(sharp, 0, 0, sharp, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.context.lineCap = this.context.lineJoin = "round";
  }

  toWorld([x, y]) {
    return [(x - this.origin[0]) / this.scale, (this.origin[1] - y) / this.scale];
  }

  toPixel([x, y]) {
    return [this.origin[0] + x * this.scale, this.origin[1] - y * this.scale];
  }

  path(points) {
    this.context.beginPath();
    for (const point of points) this.context.lineTo(...this.toPixel(point));
  }

  stroke(color, width) {
    this.context.strokeStyle = this.color(color);
    this.context.lineWidth = Math.max(1, width * this.scale);
    this.context.stroke();
  }

  fill(color) {
    this.context.fillStyle = this.color(color);
    this.context.fill();
  }

  line(points, color, width) {
    this.path(points);
    this.stroke(color, width);
  }

  dashes(from, to, color, width) {
    this.context.setLineDash([5, 7]);
    this.line([from, to], color, width);
    this.context.setLineDash([]);
  }

  polygon(points, color) {
    this.path(points);
    this.fill(color);
  }

  circle(center, radius, color) {
    this.context.beginPath();
    this.context.arc(...this.toPixel(center), radius * this.scale, 0, 2 * Math.PI);
    this.fill(color);
  }

  ring(center, radius, color, width) {
    this.context.beginPath();
    this.context.arc(...this.toPixel(center), radius * this.scale, 0, 2 * Math.PI);
    this.stroke(color, width);
  }

  box([left, bottom], [right, top], color, round = 0) {
    const [x, y] = this.toPixel([left, top]);
    this.context.beginPath();
    this.context.roundRect(x, y, (right - left) * this.scale, (top - bottom) * this.scale, round * this.scale);
    this.fill(color);
  }

  star([x, y], radius, color) {
    const corner = (i) => {
      const [r, angle] = [i % 2 ? 0.45 * radius : radius, Math.PI / 2 + (i * Math.PI) / 5];
      return [x + r * Math.cos(angle), y + r * Math.sin(angle)];
    };
    this.polygon(Array.from({ length: 10 }, (_, i) => corner(i)), color);
  }

  arrow(from, to, color, width) {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const length = Math.hypot(dx, dy) || 1;
    const [ux, uy, head] = [dx / length, dy / length, 2.2 * width];
    this.line([from, to], color, width);
    const wing = (side) => [to[0] - head * (ux + side * uy), to[1] - head * (uy - side * ux)];
    this.line([wing(1), to, wing(-1)], color, width);
  }

  /** An arrow around a centre, from straight up; counter-clockwise if the angle is positive. */
  turn([x, y], radius, angle, color, width) {
    if (Math.abs(angle) < 0.1) return;
    const steps = 24;
    const at = (a, r = radius) => [x - r * Math.sin(a), y + r * Math.cos(a)];
    this.line(Array.from({ length: steps + 1 }, (_, i) => at((angle * i) / steps)), color, width);
    const back = angle - Math.sign(angle) * Math.min(Math.abs(angle), (2.2 * width) / radius);
    this.line([at(back, radius + 2 * width), at(angle), at(back, radius - 2 * width)], color, width);
  }

  /** Where something was, the older the fainter. */
  trail(points, color, width) {
    this.context.lineCap = "butt"; // round ends would overlap, and show
    for (let i = 1; i < points.length; i++) {
      this.context.globalAlpha = 0.45 * (i / points.length) ** 2;
      this.line([points[i - 1], points[i]], color, width);
    }
    this.context.globalAlpha = 1;
    this.context.lineCap = "round";
  }
}
