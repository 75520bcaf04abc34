@rem What exec is to other shells, for "npm start" on Windows.
@%*
