//! The description of the HTTP door for programs (OpenAPI 3.1) and for people, both written from
//! the paths that there are.

use crate::http::api::{ApiParameter, ApiRoute, ROUTES};
use crate::http::seen::ServerSeen;
use serde_json::{Map, Value, json};

/// Paths beside those of the API, and what they tell.
const PLAIN: &[(&str, &str)] = &[
    ("/metrics", "Metrics, as Prometheus reads them"),
    ("/healthz", "Whether the process lives"),
    ("/readyz", "Whether it is of use to its cell: 200, or 503 and why not"),
];

/// The document; only a master answers the paths below `/api/v1/`.
pub(crate) fn document(has_cell: bool) -> Value {
    let mut paths = Map::new();
    for (path, about) in PLAIN {
        let content = json!({ "text/plain": { "schema": { "type": "string" } } });
        let mut responses = json!({ "200": { "description": about, "content": content } });
        if *path == "/readyz" {
            let why = "Of no use to its cell now: which of its servers, and why";
            responses["503"] = json!({ "description": why, "content": content });
        }
        paths.insert((*path).to_owned(), operation(about, &[], &responses));
    }
    for route in ROUTES.iter().filter(|_| has_cell) {
        let path = format!("/api/v1/{}", route.name);
        paths.insert(path, operation(route.about, route.parameters, &json_responses(route)));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Cairn",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Read only. What stands below /api/v1/ is what the commands of the same \
                            name tell with --json.",
        },
        "paths": paths,
        "components": { "schemas": { "Failure": failure_schema() } },
    })
}

fn json_responses(route: &ApiRoute) -> Value {
    let schema = if route.is_list {
        json!({ "type": "array", "items": { "type": "object" } })
    } else {
        json!({ "type": "object" })
    };
    let failure = json!({ "schema": { "$ref": "#/components/schemas/Failure" } });
    let text = json!({ "schema": { "type": "string" } });
    json!({
        "200": {
            "description": route.about,
            "content": { "application/json": { "schema": schema } },
        },
        "default": {
            "description": "Why not: of the command as JSON, of the port itself as text",
            "content": { "application/json": failure, "text/plain": text },
        },
    })
}

fn operation(about: &str, parameters: &[ApiParameter], responses: &Value) -> Value {
    let parameters: Vec<Value> = parameters.iter().map(|it| parameter(*it)).collect();
    json!({ "get": {
        "summary": about,
        "parameters": parameters,
        "responses": responses,
    } })
}

fn parameter(parameter: ApiParameter) -> Value {
    let schema = match parameter {
        ApiParameter::Flag(_) => json!({ "type": "boolean", "default": false }),
        ApiParameter::Directory => json!({ "type": "string", "default": "/" }),
        ApiParameter::Path => json!({ "type": "string" }),
    };
    json!({
        "name": parameter.name(),
        "in": "query",
        "required": parameter.is_required(),
        "schema": schema,
    })
}

/// As commands tell failures with `--json`.
fn failure_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "required": ["error", "doing", "advice", "exit"],
        "properties": {
            "error": text,
            "doing": text,
            "advice": text,
            "exit": { "type": "integer" },
        },
    })
}

/// The page for people: who answers here, and what may be asked.
pub(crate) fn page(servers: &[ServerSeen], has_cell: bool) -> String {
    let line = |path: &str, about: &str| {
        format!("<tr><td><a href=\"{path}\">{path}</a></td><td>{}</td></tr>\n", text(about))
    };
    let mut rows: String = PLAIN.iter().map(|(path, about)| line(path, about)).collect();
    rows += &line("/api/v1/openapi.json", "This list for programs (OpenAPI)");
    for route in ROUTES.iter().filter(|_| has_cell) {
        let needs = route.parameters.iter().find(|it| it.is_required());
        let needs = needs.map(|it| format!("?{}=/", it.name())).unwrap_or_default();
        rows += &line(&format!("/api/v1/{}{needs}", route.name), route.about);
    }
    let who = servers.iter().map(|server| {
        let ready = server.is_ready().unwrap_or("not ready").to_owned();
        format!("<li>{} at {}: {}</li>\n", server.role(), text(&server.address), text(&ready))
    });
    let who: String = who.collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Cairn</title>\n\
         <style>body{{font:15px sans-serif;margin:2em}}td{{padding:.2em 1.5em .2em 0}}</style>\
         </head>\n<body><h1>Cairn {}</h1>\n<ul>\n{who}</ul>\n<table>\n{rows}</table>\n\
         <p>Read only.</p></body></html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Text that is no markup.
fn text(plain: &str) -> String {
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{document, page};
    use crate::http::api::ROUTES;

    #[test]
    fn every_path_stands_in_the_document_and_on_the_page() {
        let (document, page) = (document(true), page(&[], true));
        for route in ROUTES {
            let path = format!("/api/v1/{}", route.name);
            let get = &document["paths"][&path]["get"];
            let told = get["parameters"].as_array().expect("parameters").len();
            assert_eq!(told, route.parameters.len(), "{path}");
            let why_not = &get["responses"]["default"]["content"];
            assert!(why_not["application/json"].is_object(), "{path}");
            assert!(page.contains(&format!("href=\"{path}")), "{page}");
        }
        for path in ["/metrics", "/healthz", "/readyz"] {
            let responses = &document["paths"][path]["get"]["responses"];
            assert!(responses["200"]["content"]["text/plain"].is_object());
            assert!(responses.get("default").is_none(), "it promises no JSON: {path}");
            assert_eq!(responses["503"].is_object(), path == "/readyz", "{responses}");
            assert!(page.contains(path));
        }
        assert!(super::document(false)["paths"].get("/api/v1/status").is_none());
    }
}
