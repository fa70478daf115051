/** Boards of square cells, the unit of length: a row further down is one less in y. */
export const middle = (row, column) => [column + 0.5, -row - 0.5];

export function drawBoard(canvas, rows, columns) {
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      canvas.box([column + 0.04, -row - 0.96], [column + 0.96, -row - 0.04], "cell", 0.14);
    }
  }
}
