//! `may_hello PORT`: may_minihttp on one thread, as `encke-proxy hello --workers 1` is.

use may_minihttp::{HttpServer, HttpService, Request, Response};

#[derive(Clone)]
struct Hello;

impl HttpService for Hello {
    fn call(&mut self, _: Request, response: &mut Response) -> std::io::Result<()> {
        response.header("Content-Type: text/plain").body("hello");
        Ok(())
    }
}

fn main() {
    let port = std::env::args().nth(1).expect("a port");
    may::config().set_workers(1);
    let server = HttpServer(Hello).start(format!("127.0.0.1:{port}"));
    server.expect("a listener").join().expect("it runs until it is ended");
}
