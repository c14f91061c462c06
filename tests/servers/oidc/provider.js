// oidc-provider with the pages for logging in and consenting that it brings for development.
//
// Usage: node provider.js ACCESS_TOKEN_SECONDS. Prints its issuer when it listens. Refresh tokens rotate; the only
// resources it knows are MCP servers of this machine.
import { createServer } from 'node:http';
import Provider, { errors } from 'oidc-provider';

const [, , seconds] = process.argv;
const scope = 'mcp:read mcp:write';
const server = createServer((request, response) => handler(request, response));
let handler;

server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      // Who may ask what a token is worth: the MCP server.
      { client_id: 'mcp-server', client_secret: 'mcp-server-secret', redirect_uris: [], response_types: [], grant_types: [] },
    ],
    clientDefaults: { id_token_signed_response_alg: 'RS256' },
    scopes: ['openid', 'offline_access', ...scope.split(' ')],
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: (ctx, client, code) => client.grantTypeAllowed('refresh_token') && code.scopes.has('offline_access'),
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, indicator) => {
          if (!/^http:\/\/127\.0\.0\.1:\d+\/mcp$/.test(indicator)) throw new errors.InvalidTarget();
          return { scope, audience: indicator, accessTokenFormat: 'opaque', accessTokenTTL: Number(seconds) };
        },
      },
    },
  });
  provider.on('server_error', (ctx, error) => console.error(error));
  handler = provider.callback();
  console.log(issuer);
});
