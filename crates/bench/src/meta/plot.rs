//! The plot of growth: two panels over the number of files, bytes and microseconds, as SVG.

use super::growth::GrowthPoint;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
/// Of one panel, within its margins.
const PANEL: (f64, f64) = (280.0, 200.0);
const TOP: f64 = 40.0;
const LEFTS: [f64; 2] = [60.0, 440.0];
const COLOURS: [&str; 2] = ["#1b6ca8", "#c2571a"];

/// One line of a panel.
type Curve = (&'static str, fn(&GrowthPoint) -> f64);

/// The whole picture. Both axes of values begin at zero; the axis of files is logarithmic.
pub(super) fn svg(points: &[GrowthPoint]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let bytes: [Curve; 2] = [("a file", |p| p.file_bytes), ("a chunk", |p| p.chunk_bytes)];
    let micros: [Curve; 2] = [("a look-up", |p| p.look_up_us), ("a creation", |p| p.create_us)];
    panel(&mut out, LEFTS[0], "resident bytes", bytes, points);
    panel(&mut out, LEFTS[1], "CPU µs, clients and master", micros, points);
    out.push_str("</svg>\n");
    out
}

/// The least of 1, 2 or 5 times a power of ten that is above every value.
fn axis_end(most: f64) -> f64 {
    let power = 10f64.powf(most.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|end| *end > most)
        .unwrap_or(most)
}

fn panel(out: &mut String, left: f64, title: &str, curves: [Curve; 2], points: &[GrowthPoint]) {
    let (width, height) = PANEL;
    let bottom = TOP + height;
    let values = || curves.iter().flat_map(|(_, of)| points.iter().map(of));
    let end = axis_end(values().fold(0.0, f64::max));
    let log = |files: u64| (files.max(1) as f64).log10();
    let first = points.first().map_or(0.0, |point| log(point.files));
    let span = points.last().map_or(1.0, |point| log(point.files) - first).max(1e-9);
    let x = |files: u64| left + 20.0 + (log(files) - first) / span * (width - 40.0);
    let y = |value: f64| bottom - value / end * height;
    let _ = writeln!(out, "<text x=\"{left}\" y=\"{}\">{title}</text>", TOP - 16.0);
    for step in 0..=4 {
        let value = end * f64::from(step) / 4.0;
        let at = y(value);
        let _ = writeln!(
            out,
            "<path d=\"M{left} {at:.1}H{:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            left + width,
            left - 6.0,
            at + 4.0
        );
    }
    for point in points {
        let (at, files) = (x(point.files), point.files);
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{files}</text>",
            bottom + 18.0
        );
    }
    for (index, (name, of)) in curves.iter().enumerate() {
        let colour = COLOURS[index];
        let at: Vec<(f64, f64)> = points.iter().map(|p| (x(p.files), y(of(p)))).collect();
        let path: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(
            out,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join("L")
        );
        for (x, y) in &at {
            let _ =
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let label = left + width * (0.1 + 0.45 * index as f64);
        let _ = writeln!(
            out,
            "<text x=\"{label:.1}\" y=\"{:.1}\" fill=\"{colour}\">— {name}</text>",
            bottom + 40.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::axis_end;

    #[test]
    fn an_axis_ends_above_its_values_at_a_round_number() {
        for (most, end) in [(0.0, 1.0), (64.0, 100.0), (19.0, 20.0), (4.2, 5.0), (100.0, 200.0)] {
            assert!((axis_end(most) - end).abs() < 1e-9, "{most}: {}", axis_end(most));
        }
    }
}
